//! The ways to the same end, behind a trait each: which package tool, which init system, which kind of file.
