//! Which providers and models can be used: configuration, environment and credentials put together.
