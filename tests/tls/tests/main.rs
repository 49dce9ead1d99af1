//! What is behind TLS: servers of Redis, and services that are limited.

mod one_service;
mod redis;
