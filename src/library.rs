//! What a workspace offers by files and configuration: agents and instruction files.
