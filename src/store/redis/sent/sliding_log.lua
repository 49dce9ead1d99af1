local op, now, cost_1, units_1, slot_1, span_1 = struct.unpack('<dddddd', ARGV[1])
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

-- An exact log: the rule of SlidingLog, and, with slots longer than a microsecond, of
-- SlidingBuckets. `log.rs` says the same in Rust.
--
-- A cost fits if the units that were admitted in a span back from now stay within the quota with
-- it.
--
-- The log is a row of entries, oldest first. An entry is a slot, named by the microsecond at which
-- it begins, and the total of all units that were admitted up to its end. The first entry that
-- counts and the last are in the state; those between them are in a list, with 7 bytes for each of
-- the two numbers.
--
-- Given    now         microseconds
--          cost        units; negative to give some back
--          units       the quota of a span
--          slot        how long a slot is: the same for all that share a state
--          span        how long an entry counts, from the start of its slot: likewise
--          list        the key of the list
--          expired     the total up to the last entry that counts no more
--          total       of all entries
--          first_slot, first_total, last_slot   of the first entry that counts, and of the last
--          drop        how many entries at the start of the list count no more, if the state is as
--                      log_ask returned it
-- Returns  log_ask     whether the cost fits beside so many units more; the units that count; the
--                      slots after whose end one more has room, none counts, and the cost has room
--                      (0: at once, or never); of the entries that count, the state, and drop
--          log         true; when the state is as good as none; and the state with the cost, which
--                      is charged whether it fits or not: the list is written at once

-- The first entry with at least this slot and this total: the total before it, its slot, its total,
-- and how many entries of the list there are up to it.
local function log_seek(list, first_total, total, last_slot, least_slot, least_total)
  local before, low, high, probe, slot, slot_total = first_total, 0, 2 ^ 31, 0, nil, nil
  while low < high do
    local entry = redis.call('LINDEX', list, probe)
    local its_slot, its_total
    if entry then
      if #entry ~= 14 then error('UNREADABLE entry') end
      its_slot, its_total = struct.unpack('<I7I7', entry)
      -- Totals grow up to the last one. In a list that no script wrote they mostly do not.
      if its_total < before or its_total > total then error('UNREADABLE entry') end
    end
    if not entry then
      high, slot = probe, nil
    elseif its_slot >= least_slot and its_total >= least_total then
      high, slot, slot_total = probe, its_slot, its_total
    else
      low, before = probe + 1, its_total
    end
    -- Steps grow until one goes too far: the entry is mostly near the start.
    probe = math.floor((low + high) / 2)
    if high == 2 ^ 31 then probe = 2 * low end
  end
  if slot then return before, slot, slot_total, low + 1 end
  return before, last_slot, total, low
end

-- The entries that count: `drop` of the list do not.
local function log_counted(this_slot, span, list, expired, total, first_slot, first_total,
  last_slot)
  if first_slot + span > this_slot or total == expired then
    return expired, first_slot, first_total, 0
  elseif last_slot + span <= this_slot then
    return total, last_slot, total, 2 ^ 31
  end
  return log_seek(list, first_total, total, last_slot, this_slot - span + 1, 0)
end

local function log_ask(now, cost, beside, units, slot, span, list, expired, total, first_slot,
  first_total, last_slot)
  if first_slot > last_slot or first_total > total or expired > total
    or (expired >= first_total and expired < total) then
    error('UNREADABLE state')
  end
  local this_slot, before_list, drop = now - now % slot, first_total, 0
  expired, first_slot, first_total, drop = log_counted(
    this_slot, span, list, expired, total, first_slot, first_total, last_slot)
  local counted = total - expired + beside
  local fits = counted + cost <= units or cost == 0
  -- What is held beside it counts as the newest entry.
  local newest = beside > 0 and this_slot or last_slot
  if counted == 0 then return fits, 0, 0, 0, 0, expired, first_slot, first_total, drop end
  local over, room_after, cost_after = total + beside - units, first_slot, 0
  if total == expired then room_after = this_slot end
  if counted > units or not fits then
    -- The slot of the entry with which so many units are reached.
    local function slot_of(reached)
      if reached > total then return newest end
      if reached <= first_total then return first_slot end
      local _, its_slot = log_seek(list, before_list, total, last_slot, 0, reached)
      return its_slot
    end
    if counted > units and total > expired then room_after = slot_of(over + 1) end
    if not fits and cost <= units then cost_after = slot_of(over + cost) end
  end
  return fits, math.min(counted, 2 ^ 53 - 1), room_after, newest, cost_after,
    expired, first_slot, first_total, drop
end

local function log(now, cost, units, slot, span, list, expired, total, first_slot, first_total,
  last_slot, drop)
  local this_slot = now - now % slot
  if not drop then
    expired, first_slot, first_total, drop = log_counted(
      this_slot, span, list, expired, total, first_slot, first_total, last_slot)
  end
  if cost < 0 then
    -- The oldest units are given back: those that stay count for as long or longer.
    expired = math.min(expired - cost, total)
    if first_total <= expired and total > 0 then
      local _
      _, first_slot, first_total, drop = log_seek(list, 0, total, last_slot, 0, expired + 1)
    end
  elseif cost > 0 then
    if total == expired or total + cost >= 2 ^ 53 then
      -- The log begins anew. If it becomes too much to be told apart, all of it is one entry.
      local counted = math.min(total - expired + cost, 2 ^ 53 - 1)
      if drop > 0 or first_total < total or total == 0 then redis.call('LTRIM', list, 1, 0) end
      drop, expired, total, first_slot, first_total, last_slot =
        0, 0, counted, this_slot, counted, this_slot
    else
      if last_slot == this_slot then
        if first_total == total then first_total = total + cost end
      elseif first_total < total then
        -- The last entry, which is not the first, goes to the list.
        local entry = struct.pack('<I7I7', last_slot, total)
        if redis.call('RPUSHX', list, entry) == 0 then
          -- Whether an expiry may be set is tried before there is a list.
          redis.call('PEXPIRE', list, 60000)
          redis.call('RPUSH', list, entry)
          has_new_list = true
        end
      end
      total, last_slot = total + cost, this_slot
    end
  end
  if drop > 0 then redis.call('LTRIM', list, drop, '-1') end
  if total == expired then return true, now, expired, total, first_slot, first_total, last_slot end
  local ends = math.ceil((last_slot + span) / slot) * slot
  return true, ends, expired, total, first_slot, first_total, last_slot
end

local stored_1 = call('GET', KEYS[1])
if stored_1 and #stored_1 < 57 then
  if #stored_1 ~= 8 then error('UNREADABLE state') end
  mark, overridden_until = unpack('<BI7', stored_1)
  if mark ~= 5 and mark ~= 6 or overridden_until >= 2 ^ 53 then error('UNREADABLE state') end
  if now < overridden_until then return stored_1 .. pack('<I7', now) end
  stored_1 = nil
end
local now_1, last_1, ahead_1, key_expires_at_1, expired_1, total_1, first_slot_1, first_total_1,
  last_slot_1 = now, now, 0, 0, 0, 0, 0, 0, 0
if stored_1 then
  mark, last_1, ahead_1, key_expires_at_1, expired_1, total_1, first_slot_1, first_total_1,
    last_slot_1 = unpack('<BI7I7I7I7I7I7I7I7', stored_1)
  if mark ~= 1 or #stored_1 ~= 57 and #stored_1 ~= 99 or last_1 >= 2 ^ 53 or ahead_1 >= 2 ^ 53
    or key_expires_at_1 >= 2 ^ 53 or expired_1 >= 2 ^ 53 or total_1 >= 2 ^ 53
    or first_slot_1 >= 2 ^ 53 or first_total_1 >= 2 ^ 53
    or last_slot_1 >= 2 ^ 53 then error('UNREADABLE state') end
  if #stored_1 == 99 then return '\2' end
  now_1 = now + ahead_1
  if servers_time and now_1 < last_1 and last_1 - now_1 > key_expires_at_1 - last_1 then
    ahead_1 = ahead_1 + last_1 - now_1
    call('SET', KEYS[1], pack('<BI7I7', 1, last_1, ahead_1) .. stored_1:sub(16), 'KEEPTTL')
  end
  if now_1 < last_1 or op == TAKE_BACK then now_1 = last_1 end
else stored_1 = '' end
if op == TAKE_BACK and stored_1 ~= ARGV[2] then return '' end

local fits_1, counted_1, room_after_1, fresh_after_1, cost_after_1, drop_1
fits_1, counted_1, room_after_1, fresh_after_1, cost_after_1, expired_1, first_slot_1,
  first_total_1, drop_1 =
  log_ask(now_1, cost_1, 0, units_1, slot_1, span_1, KEYS[2], expired_1, total_1, first_slot_1,
    first_total_1, last_slot_1)
if not must and (op == LOOK or not fits_1) then
  return pack('<BI7I7I7I7I7I7I7', 0, (fits_1 and 1 or 0), counted_1, room_after_1, fresh_after_1,
    cost_after_1, now + ahead_1, #stored_1) .. stored_1
end
local ends_1
_, ends_1, expired_1, total_1, first_slot_1, first_total_1, last_slot_1 =
  log(now_1, cost_1, units_1, slot_1, span_1, KEYS[2], expired_1, total_1, first_slot_1,
    first_total_1, last_slot_1, drop_1)
local until_1, value_1 = ends_1, nil
local ttl_ms_1
if until_1 >= key_expires_at_1 or not servers_time or has_new_list then
  local expiry = until_1 + math.ceil((until_1 - now_1) / 64) + 1e6
  expiry = math.min(expiry, 2 ^ 53 - 1)
  key_expires_at_1 = math.max(key_expires_at_1, expiry)
  ttl_ms_1 = math.max(math.ceil((key_expires_at_1 - ahead_1 - now) / 1000), min_ttl_ms)
end
value_1 = pack('<BI7I7I7I7I7I7I7I7', 1, now_1, ahead_1, key_expires_at_1, expired_1, total_1,
  first_slot_1, first_total_1, last_slot_1)
if ttl_ms_1 then
  call('SET', KEYS[1], value_1, 'PX', ttl_ms_1)
  call('PEXPIRE', KEYS[2], ttl_ms_1)
else
  call('SET', KEYS[1], value_1, 'KEEPTTL')
end
return now_1 > now + ahead_1 and pack('<BI7I7I7', 4, (fits_1 and 1 or 0), now + ahead_1,
  #value_1) .. value_1 or value_1
