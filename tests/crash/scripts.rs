//! The turns during which the daemon is killed.

use serde_json::{Value, json};

use super::checks::Witness;
use crate::support::{
    agent::{Agent, Answer, Builder, requests::Pending},
    llm::{Reply, task},
};

/// A turn to interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Thoughts, text, and a list of tasks.
    Stream,
    /// Several calls at once, and calls after them.
    Calls,
    /// A command that prints and never ends.
    Command,
    /// A question that is answered at once.
    Allowed,
    /// A question that is never answered.
    Asking,
    /// A full context, and a summary of it.
    Compaction,
    /// Changes of files, with snapshots around them.
    Snapshots,
    /// An undo of such changes.
    Undo,
    /// A subagent with a call of its own.
    Subagent,
    /// The first opening of a store that an older version wrote.
    Migration,
}

/// A script on its way.
pub struct Running {
    script: Script,
    pending: Pending,
    pub witness: Witness,
}

const SUMMARY: &str = "## Objective\nbees";
const PROMPT: &str = "do it";

impl Script {
    pub const ALL: [Self; 10] = [
        Self::Stream,
        Self::Calls,
        Self::Command,
        Self::Allowed,
        Self::Asking,
        Self::Compaction,
        Self::Snapshots,
        Self::Undo,
        Self::Subagent,
        Self::Migration,
    ];

    pub fn builder(self, builder: Builder) -> Builder {
        let builder = builder.config(json!({"windlass": {"file_time": false}}));
        match self {
            Self::Allowed => {
                builder.config(json!({"permission": {"bash": "ask"}})).answering(Answer::AllowOnce)
            }
            Self::Asking => builder.config(json!({"permission": {"bash": "ask"}})),
            Self::Stream
            | Self::Calls
            | Self::Command
            | Self::Compaction
            | Self::Snapshots
            | Self::Undo
            | Self::Subagent
            | Self::Migration => builder,
        }
    }

    /// Has the conversation that precedes the turn.
    pub async fn begin(self, agent: &Agent, session: &str) {
        agent.scratch.write("dirty.txt", "not committed\n");
        match self {
            Self::Undo => {
                agent.llm.reply(change("call_a", "one"));
                agent.llm.reply(Reply::text("changed "));
                agent.prompt(session, "change").await;
            }
            Self::Migration | Self::Compaction => {
                agent.llm.reply(Reply::call("call_a", "bash", json!({"command": "echo before"})));
                agent.llm.reply(Reply::text(&"before ".repeat(100)));
                agent.prompt(session, "first").await;
            }
            Self::Stream
            | Self::Calls
            | Self::Command
            | Self::Allowed
            | Self::Asking
            | Self::Snapshots
            | Self::Subagent => {
                agent.llm.reply(Reply::text("before "));
                agent.prompt(session, "first").await;
            }
        }
    }

    /// Puts another daemon in place of the first one where that is part of the script.
    pub async fn interlude(self, agent: Agent, mut witness: Witness) -> (Agent, Witness) {
        if self != Self::Migration {
            witness.n_before = agent.updates(&witness.session).len();
            return (agent, witness);
        }
        witness.earlier = agent.updates(&witness.session);
        let database = agent.scratch.home.join(".local/share/windlass/windlass.db");
        let builder = self.builder(agent.successor());
        agent.finish().await;
        make_older(&database);
        (builder.start().await, witness)
    }

    /// Starts the turn.
    pub fn run(self, agent: &Agent, witness: Witness) -> Running {
        let session = &witness.session;
        let words = (0..60).map(|n| format!("word{n} "));
        let replies = match self {
            Self::Stream => {
                let todos =
                    json!({"todos": [{"content": "look", "status": "in_progress", "priority": "high"}]});
                let texts = words
                    .clone()
                    .fold(Reply::reasoning("let me think "), |reply, word| reply.and_text(&word));
                vec![texts.and_call("call_1", "todowrite", todos), Reply::deltas(words)]
            }
            Self::Calls => vec![
                Reply::text("now ")
                    .and_call("call_1", "bash", json!({"command": "seq 1 40"}))
                    .and_call("call_2", "read", json!({"filePath": agent.scratch.path("a.txt")}))
                    .and_call("call_3", "grep", json!({"pattern": "two"})),
                Reply::call("call_4", "bash", json!({"command": "seq 1 3; exit 3"})),
                Reply::text("done"),
            ],
            Self::Command => {
                vec![Reply::text("now ").and_call(
                    "call_1",
                    "bash",
                    json!({"command": "seq 1 30; sleep 600 & echo last; sleep 600"}),
                )]
            }
            Self::Allowed => vec![
                Reply::call("call_1", "bash", json!({"command": "echo allowed"})).and_call(
                    "call_2",
                    "bash",
                    json!({"command": "echo too"}),
                ),
                Reply::text("done"),
            ],
            Self::Asking => vec![Reply::call("call_1", "bash", json!({"command": "touch made"}))],
            Self::Compaction => {
                let refusal = json!({"error": {"message": "prompt is too long"}});
                let summary = Reply::deltas([SUMMARY, " and", " more"]);
                vec![Reply::status(400).body(refusal), summary, Reply::deltas(words)]
            }
            Self::Snapshots => {
                let edit =
                    json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
                vec![
                    change("call_1", "one"),
                    Reply::call("call_2", "edit", edit),
                    change("call_3", "two"),
                    Reply::text("done"),
                ]
            }
            Self::Undo => Vec::new(),
            Self::Subagent => vec![
                Reply::text("now ").and_call("call_1", "task", task("CHILD", "general")),
                Reply::text("child ").and_call("call_1", "bash", json!({"command": "echo inside"})),
                Reply::text("found it"),
                Reply::text("done"),
            ],
            Self::Migration => Vec::new(),
        };
        replies.into_iter().for_each(|reply| agent.llm.reply(reply));
        let pending = match self {
            Self::Undo => agent.send_prompt(session, "/undo"),
            Self::Migration => {
                let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
                agent.send_request("session/load", params)
            }
            Self::Stream
            | Self::Calls
            | Self::Command
            | Self::Allowed
            | Self::Asking
            | Self::Compaction
            | Self::Snapshots
            | Self::Subagent => agent.send_prompt(session, PROMPT),
        };
        Running { script: self, pending, witness }
    }

    /// Returns the prompts of the conversation, joined.
    pub fn prompts(self) -> &'static [&'static str] {
        match self {
            Self::Undo => &["change"],
            Self::Migration => &["first"],
            Self::Stream
            | Self::Calls
            | Self::Command
            | Self::Allowed
            | Self::Asking
            | Self::Compaction
            | Self::Snapshots
            | Self::Subagent => &["first", PROMPT],
        }
    }
}

impl Running {
    /// Waits until nothing more happens in the script.
    pub async fn over(&self, agent: &Agent) {
        match self.script {
            Script::Command => {
                let printed = |update: &Value| update["content"].to_string().contains("last");
                agent.has_update(&self.witness.session, "the command to print", printed).await;
            }
            Script::Asking => agent.has_asked(1).await,
            Script::Stream
            | Script::Calls
            | Script::Allowed
            | Script::Compaction
            | Script::Snapshots
            | Script::Undo
            | Script::Subagent
            | Script::Migration => {
                self.pending.answer().await.unwrap();
            }
        }
    }
}

/// Changes a committed, an uncommitted and a new file.
fn change(id: &str, word: &str) -> Reply {
    let command =
        format!("echo {word} >> README.md; echo {word} >> dirty.txt; mkdir -p new; echo {word} > new/{word}");
    Reply::call(id, "bash", json!({"command": command}))
}

/// Takes the newest columns and tables out of a store.
fn make_older(database: &std::path::Path) {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection
        .execute_batch(
            "ALTER TABLE session DROP COLUMN chosen_title; ALTER TABLE session DROP COLUMN chosen_agent; \
             ALTER TABLE session DROP COLUMN chosen_model; ALTER TABLE session DROP COLUMN patch; \
             ALTER TABLE session DROP COLUMN client_prompt; ALTER TABLE project DROP COLUMN settings; \
             DROP INDEX session_by_directory; DROP TABLE spent_message; DROP TABLE waiting_prompt; DROP TABLE shared_session; DROP TABLE shared_state; DROP TABLE noted_file; DROP TABLE approval; PRAGMA user_version = 1",
        )
        .unwrap();
}
