-- At most so many requests at once: the rule of InFlight, whose charge is nothing. `in_flight.rs`
-- says the same in Rust; `settled.lua` holds the places, and moves them when they are renewed.
--
-- Parameters  max     how many places there are
-- State       none: what is held is all that there is
-- Reply       taken   how many places are taken
--- judge
m.fits = cost <= m.max
--- capacity
m.capacity = m.max
--- expire
m.expires_at = 0
--- reply
m.taken = 0
--- beside
m.taken = held
