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
