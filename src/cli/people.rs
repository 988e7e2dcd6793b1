//! Opens the accounts of this machine's server, or those that the servers of a fleet share.

use tokio::runtime::Handle;
use windlass_accounts::{Accounts, AccountsError, Row, SharedRows, Turn};
use windlass_base::blocking::blocking;
use windlass_core::config::paths::Paths;
use windlass_engine::{
    Engine, EngineError,
    fleet::{Fleet, PeopleRow, PeopleTurn},
};

/// Opens the accounts. Those of a server alone are taken into a fleet that has none.
pub async fn open(engine: &Engine, paths: &Paths) -> Result<Accounts, AccountsError> {
    let alone = paths.accounts();
    let Some(number) = engine.fleet().number().await.map_err(out_of_reach)? else {
        return blocking(move || Accounts::open(&alone)).await;
    };
    // Another fleet has other accounts.
    let copy = alone.with_file_name(format!("accounts-{number:016x}.db"));
    let rows = Rows { engine: engine.clone(), runtime: Handle::current() };
    blocking(move || {
        let accounts = Accounts::open_shared(&copy, Box::new(rows))?;
        accounts.adopt(&alone)?;
        Ok(accounts)
    })
    .await
}

/// The rows of a fleet, for threads that may wait.
struct Rows {
    engine: Engine,
    runtime: Handle,
}

struct FleetTurn<'a> {
    turn: PeopleTurn,
    runtime: &'a Handle,
}

impl SharedRows for Rows {
    fn since(&self, change: i64) -> Result<Vec<Row>, AccountsError> {
        let rows = self.runtime.block_on(self.engine.fleet().people_since(change));
        Ok(rows.map_err(out_of_reach)?.into_iter().map(row).collect())
    }

    fn begin(&self, since: i64) -> Result<(Box<dyn Turn + '_>, Vec<Row>), AccountsError> {
        let turn = self.runtime.block_on(self.engine.fleet().begin_people(since));
        let mut turn = turn.map_err(out_of_reach)?;
        let rows = turn.rows().into_iter().map(row).collect();
        Ok((Box::new(FleetTurn { turn, runtime: &self.runtime }), rows))
    }

    fn patience(&self) -> std::time::Duration {
        self.engine.fleet().lease()
    }
}

impl Turn for FleetTurn<'_> {
    fn put(self: Box<Self>, rows: Vec<Row>) -> Result<i64, AccountsError> {
        let rows: Vec<PeopleRow> = rows
            .into_iter()
            .map(|Row { change, table, key, value }| PeopleRow { change, table, key, value })
            .collect();
        self.runtime.block_on(Fleet::put_people(self.turn, &rows)).map_err(out_of_reach)
    }
}

fn row(PeopleRow { change, table, key, value }: PeopleRow) -> Row {
    Row { change, table, key, value }
}

fn out_of_reach(error: EngineError) -> AccountsError {
    AccountsError::OutOfReach(error.to_string().trim_end_matches('.').to_owned())
}
