//! Sudden death: everything started by a killed daemon's commands and servers ends with it, and so does its reaper.

use std::{os::unix::fs::MetadataExt, path::Path, time::Duration};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    cli::Machine,
    mcp::until_offered,
    support::{
        agent::Agent,
        llm::{Reply, task},
        process,
        scratch::Scratch,
        skip::{sees_no_descriptors, skipped},
    },
};

/// A job in the background, one in a session of its own, one deaf to hangups, one without our variables, and one with
/// a parent that has ended before: five that end by themselves only after the test.
const FIVE: &str = "sleep 1000 & echo $! >>pids; setsid sleep 1001 & echo $! >>pids; \
    nohup sleep 1002 & echo $! >>pids; env -i HOME=$HOME sleep 1003 & echo $! >>pids; \
    (setsid sleep 1004 & echo $! >>pids); touch started";

/// Returns the processes of [`FIVE`], once all of them run.
async fn five(scratch: &Scratch) -> Vec<i32> {
    scratch.appears("started").await;
    let pids: Vec<i32> = scratch.read("pids").lines().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 5);
    // Each of them is a shell first, then perhaps `setsid`.
    for pid in &pids {
        let command_line = format!("/proc/{pid}/cmdline");
        while !std::fs::read(&command_line).is_ok_and(|it| it.starts_with(b"sleep\0")) {
            assert!(process::runs(*pid), "{pid}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    pids
}

/// Kills the agent; returns those of these processes that still run after a while.
async fn survivors(agent: &mut Agent, pids: &[i32]) -> String {
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    process::describe(&process::ended(pids).await)
}

#[tokio::test]
async fn what_a_command_started_ends_with_a_killed_daemon() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": format!("{FIVE}; wait")})));
    let _prompt = agent.send_prompt(&session, "go");
    let pids = five(&agent.scratch).await;
    assert_eq!(survivors(&mut agent, &pids).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn what_an_mcp_servers_wrapper_started_ends_with_a_killed_daemon() {
    let mut agent = Agent::start().await;
    // As `npx` does it: the process that is started first is not the server.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let wrapper = format!("{FIVE}; python3 '{}' good; true", script.display());
    let server = json!({"name": "shop", "command": "sh", "args": ["-c", wrapper], "env": []});
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": [server]});
    let answer = agent.request("session/new", params).await.unwrap();
    until_offered(&agent, answer["sessionId"].as_str().unwrap(), "shop_price").await;
    let pids = five(&agent.scratch).await;
    assert_eq!(survivors(&mut agent, &pids).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn what_a_subagents_command_started_ends_with_a_killed_daemon() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    let command = json!({"command": format!("{FIVE}; wait")});
    agent.llm.reply_to("CHILD", Reply::call("call_2", "bash", command));
    let _prompt = agent.send_prompt(&session, "go");
    let pids = five(&agent.scratch).await;
    assert_eq!(survivors(&mut agent, &pids).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn what_a_command_started_ends_with_a_killed_run() {
    let machine = Machine::new().await.with("permission", json!({"*": "allow"}));
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": format!("{FIVE}; wait")})));
    let mut run = machine.start(&["run", "go"]);
    let pids = five(&machine.scratch).await;
    run.start_kill().unwrap();
    run.wait().await.unwrap();
    let left = process::ended(&pids).await;
    assert!(left.is_empty(), "{}", process::describe(&left));
    machine.finish().await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_while_idle_leaves_no_reaper() {
    let mut agent = Agent::start().await;
    agent.run("bash", json!({"command": "true"})).await;
    let reaper = agent.reaper().unwrap();
    assert_eq!(survivors(&mut agent, &[reaper]).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn a_daemon_ends_after_its_reaper() {
    let mut agent = Agent::start().await;
    agent.run("bash", json!({"command": "true"})).await;
    let reaper = agent.reaper().unwrap();
    agent.close_stdin();
    assert!(agent.wait_exit().await.success());
    assert!(!process::runs(reaper));
    agent.finish().await;
}

#[tokio::test]
async fn without_commands_there_is_no_reaper_and_with_many_there_is_one() {
    let agent = Agent::start().await;
    // In a repository, which is asked for its root commit.
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.reaper(), None);
    agent.told(&session, "bash", json!({"command": "true"})).await;
    let reaper = agent.reaper();
    assert!(reaper.is_some());
    agent.told(&session, "bash", json!({"command": "true"})).await;
    assert_eq!(agent.reaper(), reaper);
    agent.finish().await;
}

#[tokio::test]
async fn two_daemons_leave_each_others_children_alone() {
    let mut agent_1 = Agent::start().await;
    let agent_2 = agent_1.successor().start().await;
    let (session_1, session_2) = (agent_1.new_session().await, agent_2.new_session().await);
    let command = |name: &str| json!({"command": format!("setsid sleep 600 & echo $! >{name}; touch {name}_runs; wait")});
    agent_1.llm.reply_to("one", Reply::call("call_1", "bash", command("one")));
    agent_1.llm.reply_to("two", Reply::call("call_2", "bash", command("two")));
    let _prompt = agent_1.send_prompt(&session_1, "one");
    let prompt = agent_2.send_prompt(&session_2, "two");
    let mut children = Vec::new();
    for name in ["one", "two"] {
        agent_1.scratch.appears(&format!("{name}_runs")).await;
        children.push(agent_1.scratch.read(name).trim().parse().unwrap());
    }
    let reaper = agent_1.reaper().unwrap();
    assert_eq!(survivors(&mut agent_1, &[children[0], reaper]).await, "");
    // The reaper has done its work.
    assert!(process::runs(children[1]));
    agent_2.cancel(&session_2);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent_1.finish_beside(&agent_2).await;
    agent_2.finish().await;
}

#[tokio::test]
async fn only_the_daemon_holds_the_reapers_pipe() {
    if sees_no_descriptors() {
        return;
    }
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.told(&session, "bash", json!({"command": "true"})).await;
    let reaper = agent.reaper().unwrap();
    let open = |pid: i32| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        // A process that works closes some meanwhile.
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.map(|link| link.display().to_string()).collect()
    };
    let pipe = std::fs::read_link(format!("/proc/{reaper}/fd/0")).unwrap().display().to_string();
    assert!(pipe.starts_with("pipe:"), "{pipe}");
    assert_eq!(open(reaper).iter().filter(|it| **it == pipe).count(), 1);
    assert_eq!(open(agent.pid()).iter().filter(|it| **it == pipe).count(), 1);
    let told = agent.told(&session, "bash", json!({"command": "readlink /proc/self/fd/*"})).await;
    assert!(told.contains("pipe:") && !told.contains(&pipe), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_reaper_that_was_lost_is_replaced_and_the_next_knows_what_runs() {
    let mut agent = Agent::start().await;
    let (session_1, session_2) = (agent.new_session().await, agent.new_session().await);
    agent.llm.reply_to("one", Reply::call("call_1", "bash", json!({"command": format!("{FIVE}; wait")})));
    let _prompt = agent.send_prompt(&session_1, "one");
    let pids = five(&agent.scratch).await;
    let reaper = agent.reaper().unwrap();
    process::send(reaper, Signal::SIGKILL);
    assert!(process::ended(&[reaper]).await.is_empty());
    agent.llm.reply_to("two", Reply::call("call_2", "bash", json!({"command": "echo goes on"})));
    agent.llm.reply_to("two", Reply::text("done"));
    assert_eq!(agent.prompt(&session_2, "two").await.text(), "done");
    assert_eq!(agent.llm.last_request().tool_result("call_2"), "goes on\n");
    assert!(agent.stderr().contains("the reaper is lost"), "{}", agent.stderr());
    assert!(agent.reaper().is_some_and(|next| next != reaper));
    assert_eq!(survivors(&mut agent, &pids).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn a_reaper_is_deaf_to_what_ends_others() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": format!("{FIVE}; wait")})));
    let _prompt = agent.send_prompt(&session, "go");
    let pids = five(&agent.scratch).await;
    let reaper = agent.reaper().unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1] {
        process::send(reaper, signal);
    }
    // The harness gives the agent a group of its own; all of it is killed.
    process::send(-agent.pid(), Signal::SIGKILL);
    assert_eq!(survivors(&mut agent, &pids).await, "");
    agent.finish().await;
}

#[tokio::test]
async fn a_command_without_a_reaper_runs_all_the_same() {
    let unshared = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];
    let mut probe = std::process::Command::new(unshared[0]);
    if !probe.args(&unshared[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return skipped("this machine gives users no mount namespaces");
    }
    // The program cannot find itself.
    let agent = Agent::builder().started_by(&unshared).start().await;
    let (_, told) = agent.run("bash", json!({"command": "echo runs"})).await;
    assert_eq!(told, "runs\n");
    agent.wait_stderr("no reaper could be started").await;
    assert_eq!(agent.reaper(), None);
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_commands_orphans_are_ended_too() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": format!("{FIVE}; wait")})));
    let prompt = agent.send_prompt(&session, "go");
    let pids = five(&agent.scratch).await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    let left = process::ended(&pids).await;
    assert!(left.is_empty(), "{}", process::describe(&left));
    agent.finish().await;
}

#[tokio::test]
async fn what_a_finished_command_left_outside_its_group_is_its_users() {
    let mut agent = Agent::start().await;
    let command = "setsid sh -c 'touch left; exec sleep 600' >/dev/null 2>&1 & echo $!; \
        until [ -e left ]; do sleep 0.01; done";
    let (_, told) = agent.run("bash", json!({"command": command})).await;
    let server: i32 = told.trim().parse().unwrap();
    let reaper = agent.reaper().unwrap();
    assert_eq!(survivors(&mut agent, &[reaper]).await, "");
    assert!(process::runs(server));
    process::send(server, Signal::SIGKILL);
    agent.finish().await;
}

#[tokio::test]
async fn a_windlass_in_a_windlass_marks_for_both() {
    let agent = Agent::builder().env("WINDLASS_CHILD", "outer.1").start().await;
    let session = agent.new_session().await;
    let mut marks = Vec::new();
    for _ in 0..2 {
        marks.push(agent.told(&session, "bash", json!({"command": "echo $WINDLASS_CHILD"})).await);
    }
    assert!(marks.iter().all(|mark| mark.starts_with("outer.1/")) && marks[0] != marks[1], "{marks:?}");
    agent.finish().await;
}

#[tokio::test]
async fn the_reaper_holds_no_secret_and_no_mark() {
    let agent = Agent::builder().env("SECRET_API_KEY", "very-secret").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "bash", json!({"command": "true"})).await;
    // Ending marked processes leaves the reaper its work. Only root can read this; a program that hides is root's.
    let reaper = format!("/proc/{}", agent.reaper().unwrap());
    let environment = std::fs::read(format!("{reaper}/environ"));
    if nix::unistd::geteuid().is_root() {
        assert_eq!(environment.unwrap(), b"");
    } else {
        assert!(environment.is_err());
        assert_eq!(std::fs::metadata(format!("{reaper}/environ")).unwrap().uid(), 0);
    }
    agent.finish().await;
}
