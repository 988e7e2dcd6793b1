//! The engine: sessions, turns and steps behind one façade.
