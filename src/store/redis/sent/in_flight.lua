local op, now, cost_1, max_1, held_at_most_1, process_1, number_1,
  running_1 = struct.unpack('<dddddddd', ARGV[1])
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

-- At most so many requests at once: the rule of InFlight over Redis. In memory it is a hold.
--
-- Each process has a lease: how many requests it has in flight, until when that counts unless it is
-- renewed. Messages may be lost, come late or in another order, so the process counts them. A
-- request that begins or ends changes the requests by one. A renewal says how many there are: it is
-- left out if a later change came before it, and leaves out the earlier changes that come after it.
-- Where Redis has lost a lease, it learns from the next message how many requests are sure, and
-- leaves out ends that are older than that message: what they end is not counted.
--
-- Given    last, now     microseconds: when the state was written, and now
--          cost          1 for a request that begins, -1 for one that ends, else 0
--          must          whether the cost is charged even if it does not fit
--          max           how many may be in flight
--          held_at_most  how long a lease lasts, in microseconds
--          process       the number of the process
--          number        of this message, counted by the process
--          running       how many requests are in flight: in a renewal with those that are asked
--                        for, else those that are sure without this one; -1 if nothing is said
--          taken         what the last charge replied: it is not read
--          bytes         of the leases
--          stored        what is stored, with the leases, each of them whole numbers of 7 bytes:
--                        the process, the requests, when it ends, and the numbers of the first
--                        message, of the last change and of the last renewal
--          before        how many bytes stand before the leases
-- Returns  whether the cost fits; when no lease lasts any more; how many are in flight without the
--          cost; and if it fits, the leases and the state with it
local function in_flight(last, now, cost, must, max, held_at_most, process, number, running, taken,
  bytes, stored, before)
  local leases, by_others, ends, from = '', 0, now, before + 1
  local own, own_ends, first, changed, renewed = 0, now, number, 0, 0
  if bytes % 42 ~= 0 then error('UNREADABLE leases') end
  for at = from, before + bytes, 42 do
    local id, requests, lasts_until = struct.unpack('<I7I7I7', stored, at)
    if id ~= process and lasts_until > now then
      by_others = by_others + requests
      if lasts_until > ends then ends = lasts_until end
    else
      -- Its own is written anew, one that has ended is as good as lost.
      if at > from then leases = leases .. stored:sub(from, at - 1) end
      from = at + 42
      if lasts_until > now then
        own, own_ends = requests, lasts_until
        first, changed, renewed = struct.unpack('<I7I7I7', stored, at + 21)
      end
    end
  end
  if from <= before + bytes then leases = leases .. stored:sub(from, before + bytes) end
  local sure = own
  if number > changed and running > own then sure = running end
  local in_use = by_others + sure
  -- A renewal that came first has counted it.
  local more = number > renewed and cost or 0
  if in_use + more > max and cost > 0 and not must then return false, nil, in_use end
  if cost == 0 and running >= 0 then
    if number > changed and number > renewed then own, renewed = running, number end
    own_ends = now + held_at_most
  elseif cost ~= 0 then
    if number > renewed and cost > 0 then
      -- A begin is counted beside those that are sure.
      own = sure + cost
    elseif number > renewed and number >= first then
      -- An end leaves as many.
      own = math.max(own + cost, number > changed and running or 0, 0)
    end
    if number > changed then changed = number end
    if now + held_at_most > own_ends then own_ends = now + held_at_most end
  end
  if own_ends > now then
    leases = leases .. struct.pack('<I7I7I7I7I7I7', process, own, own_ends, first, changed, renewed)
    if own_ends > ends then ends = own_ends end
  end
  return true, ends, in_use, leases, by_others + own, #leases
end

local stored_1 = call('GET', KEYS[1])
if stored_1 and #stored_1 < 36 then
  if #stored_1 ~= 8 then error('UNREADABLE state') end
  mark, overridden_until = unpack('<BI7', stored_1)
  if mark ~= 5 and mark ~= 6 or overridden_until >= 2 ^ 53 then error('UNREADABLE state') end
  if now < overridden_until then return stored_1 .. pack('<I7', now) end
  stored_1 = nil
end
local now_1, last_1, ahead_1, key_expires_at_1, taken_1, bytes_1, before_1 = now, now, 0, 0, 0, 0, 0
if stored_1 then
  mark, last_1, ahead_1, key_expires_at_1, taken_1, bytes_1 = unpack('<BI7I7I7I7I7', stored_1)
  before_1 = #stored_1 - bytes_1
  if mark ~= 1 or before_1 ~= 36 or last_1 >= 2 ^ 53 or ahead_1 >= 2 ^ 53
    or key_expires_at_1 >= 2 ^ 53 or taken_1 >= 2 ^ 53
    or bytes_1 >= 2 ^ 53 then error('UNREADABLE state') end
  now_1 = now + ahead_1
  if servers_time and now_1 < last_1 and last_1 - now_1 > key_expires_at_1 - last_1 then
    ahead_1 = ahead_1 + last_1 - now_1
    call('SET', KEYS[1], pack('<BI7I7', 1, last_1, ahead_1) .. stored_1:sub(16), 'KEEPTTL')
  end
  if now_1 < last_1 or op == TAKE_BACK then now_1 = last_1 end
else stored_1 = '' end
if op == TAKE_BACK and stored_1:sub(1, before_1) ~= ARGV[2] then return '' end

local fits_1, ends_1, taken_before_1, leases_1
fits_1, ends_1, taken_before_1, leases_1, taken_1, bytes_1 =
  in_flight(last_1, now_1, cost_1, must, max_1, held_at_most_1, process_1, number_1, running_1,
    taken_1, bytes_1, stored_1, before_1)
if not must and (op == LOOK or not fits_1) then
  return pack('<BI7I7I7I7', 0, (fits_1 and 1 or 0), taken_before_1, now + ahead_1,
    before_1) .. stored_1:sub(1, before_1)
end
local until_1, value_1 = ends_1, nil
local ttl_ms_1
if until_1 >= key_expires_at_1 or not servers_time or has_new_list then
  local expiry = until_1 + math.ceil((until_1 - now_1) / 64) + 1e6
  expiry = math.min(expiry, 2 ^ 53 - 1)
  key_expires_at_1 = math.max(key_expires_at_1, expiry)
  ttl_ms_1 = math.max(math.ceil((key_expires_at_1 - ahead_1 - now) / 1000), min_ttl_ms)
end
value_1 = pack('<BI7I7I7I7I7', 1, now_1, ahead_1, key_expires_at_1, taken_1, bytes_1)
if ttl_ms_1 then
  call('SET', KEYS[1], value_1 .. leases_1, 'PX', ttl_ms_1)
else
  call('SET', KEYS[1], value_1 .. leases_1, 'KEEPTTL')
end
return now_1 > now + ahead_1 and pack('<BI7I7I7', 4, (fits_1 and 1 or 0), now + ahead_1,
  #value_1) .. value_1 or value_1
