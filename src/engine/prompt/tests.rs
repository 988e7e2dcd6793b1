//! What a model is sent for a given history.
