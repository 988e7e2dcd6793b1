//! What a person at a terminal sees of the commands.

use nix::sys::signal::Signal;

use crate::{
    cli::Machine,
    support::{
        llm::{Gate, Reply},
        terminal::Terminal,
    },
};

#[tokio::test]
async fn the_answer_is_on_the_screen() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Done: 你好."));
    let mut terminal = Terminal::builder(&machine.scratch, &machine.config)
        .arguments(&["run", "say it"])
        .size(40, 10)
        .start();
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("Done: 你好."), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn a_terminal_that_goes_away_ends_the_run_with_129() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun.").and_gate(&gate));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.hang_up().await;
    assert_eq!(terminal.ended().await.code(), Some(128 + Signal::SIGHUP as i32));
    gate.abandoned().await;
    machine.finish().await;
}

#[tokio::test]
async fn ctrl_c_ends_the_run_with_130() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun.").and_gate(&gate));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "work"]).start();
    terminal.shows_text("Begun.").await;
    terminal.types("\x03");
    let screen = terminal.ends_with(128 + Signal::SIGINT as i32).await;
    assert!(screen.is_cursor_shown, "{screen}");
    machine.finish().await;
}
