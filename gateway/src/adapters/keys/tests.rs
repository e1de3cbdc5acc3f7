//! Rules for keys over a scripted network.
