-- Around the rules: reads each state, asks each member, and writes what all of them admit. The
-- lines that name members are repeated for each of them (`script.rs`); the first one reads the
-- arguments.
--
-- This says what all kinds of scripts do. One plain limit has ops 0, 1, 2 and 4 (a queue 3, too),
-- and never replies a byte 3: lists, holds and several decisions need the rest. A script reads no
-- more of ARGV[1] than its first line names.
--
-- KEYS     for each limit the key of its state, then the list of each member that has one
-- ARGV[1]  doubles: op (0 charges what all members admit, 1 looks, 2 charges or gives back whatever
--          they say, 3 settles what an admission holds or gives back its turn in a queue, 4 takes a
--          charge back as of its own instant, if nothing was written since); the caller's time in
--          microseconds, or -1 if the server's counts; then of each member its cost, its numbers,
--          if it counts requests in flight what its process says of them, and what op 3 settles
--          (for other ops 0): if it holds, the generation and the units, if it is a queue, what
--          the admission left; then of each how long it holds (0: never), and how long a hold
--          matters after its end
-- ARGV[2]  of op 4: the value that the charge replied; of several decisions: for each its cost of
--          every member, 4 bytes; those of ARGV[1] do not count then; of a call that leases: for
--          each step its op, its cost, the units that a settlement frees, how long units are held,
--          and of each member the generation that a settlement frees from. The op of the last one
--          may be 5, a lease: unless a decision was refused, it holds what is asked for, but at
--          most half of the room, and no more than may be held in all, which stands for the units.
--          If it holds any, the reply before its own says how many, and how many parts a unit of
--          each member has
-- Value    of a state: a byte 1, then whole numbers of 7 bytes: last, ahead, key_expires_at, the
--          state of each member; while units are held, the tail: two generations of each member;
--          of each member in flight its leases, which no reply has. Or a byte 5 or 6 and an
--          instant: until then a cost is refused or let through, and nothing is charged
-- Reply    by its first byte; of several decisions one for each, as if they had come one by one:
--          1  charged; the values as they are written, and nothing else
--          0  not charged; numbers: a bit for each member that has room, what members say of a
--             list, of each limit its time and the bytes of its value; then the values as they are
--             stored
--          3  charged, of a script that holds, where the values do not say all: there is a shadow,
--             something is held beside a list or another limit, or the server's clock is behind a
--             state's time; then as 0
--          4  the same, of a script that does not hold; then as 0, but nothing of a list
--          5  a cost is refused, 6 it is let through, whatever the limit says: until when, and the
--             time. It is the one reply of several decisions, and of several limits.
--          2  a value has a tail, and this script does not hold: ask the one that does, by the same
--             arguments
--          Nothing: op 4 where something was written since.
-- Error    UNREADABLE, if a key has a value of a type, length or form that no state has
--
-- The time of a state never goes back. If a clock does, no time passes for the state until it has
-- caught up. If that is longer than from `last` to `key_expires_at`, and the clock is the server's,
-- the state goes on where it was, and `ahead` says how far that is ahead of the server. Looks and
-- refusals write only this, and what a list has held in generations that have ended.
--
-- A key lives a sixty-fourth and a second longer than its state matters, so that few charges move
-- its expiry, which goes by the server's clock: with a caller's it is a minute at least.
local LOOK, SETTLE, TAKE_BACK = 1, 3, 4
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local servers_time = now < 0 and call('TIME')
if servers_time then now = servers_time[1] * 1000000 + servers_time[2] end
local must, min_ttl_ms, has_new_list, mark, overridden_until, _ =
  op > LOOK, servers_time and 1 or 60000, false
