//! Recordings made from models.
