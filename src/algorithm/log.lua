-- An exact log: the rule of SlidingLog, and, with slots longer than a microsecond, of
-- SlidingBuckets. `log.rs` says the same in Rust.
--
-- A cost has room if the units that were admitted in a span back from now stay within the quota
-- with it.
--
-- The log is a row of entries, oldest first. An entry is a slot, named by the microsecond at which
-- it begins, and the total of all units that were admitted up to its end. The first entry that
-- counts and the last are in the state; those between them are in a list. An entry of the list is
-- the low 6 bytes of the slot, and the total: in 3 bytes while they hold it, later its low 4 bytes.
-- The last entry tells the rest of both. If spans or quotas are too large for that, an entry of the
-- list is 7 bytes of each.
--
-- `rule('another plan')` stands for the last part. It runs if there is no state yet, and if the
-- last cost was admitted under another plan.
--
-- Parameters  units              the quota of a span
--             slot_micros        how long a slot is
--             span_micros        how long an entry counts, from the start of its slot
--             own_id             the id of the caller's plan
-- State       expired_total      the total up to the last entry that counts no more
--             total              of all entries
--             first_slot         of the first entry that counts
--             first_total        the total up to its end
--             last_slot          of the last entry
-- Private     id                 that of the only plan; 0 if there are several
--             shift              how much later slots are in the list than they really are, modulo
--                                2^53: the clock has stepped back
-- Tail        of the only plan   reach (microseconds for which an entry may count, with its slot),
--                                units, slot_micros; then the checksum of its id and these
--             of several         the same of the latest; then the largest reach and units of the
--                                others, and the microsecond until which they matter; then
--                                expired_total, first_slot and first_total as they are for all
--                                plans: those of the state are what the latest counts; then the
--                                checksum of total, last_slot, shift and all of these
-- Keys        list               the entries between the first and the last
-- Reply       counted            the units that count
--             room_after         the slot after whose end one more has room; 0 if there are none
--                                that count
--             fresh_after        the slot after whose end none counts
--             cost_after         the slot after whose end the cost has room; 0 if it has, or never
--                                will
--- judge
if m.shift ~= 0 and not (m.shift > 0 and m.shift < 2 ^ 53 and m.shift % 1 == 0) then
  error('UNREADABLE state')
end
if m.first_slot > m.last_slot or m.first_total > m.total or m.expired_total > m.total
  or (m.expired_total >= m.first_total and m.expired_total < m.total) then
  error('UNREADABLE state')
end
if m.id ~= m.own_id then
  rule('another plan')
end
m.slot = now - now % m.slot_micros
if m.last_slot > m.slot then
  m.ahead = m.last_slot - m.slot
  m.slot = m.last_slot
end
-- The list is read only if entries are over, if there may be no room, or for other plans.
if m.first_slot + m.span_micros <= m.slot or m.first_total <= m.total + cost - m.units
  or m.plans then
  m.seek = require('log_seek')
end
if m.first_slot + m.span_micros <= m.slot and m.total > m.expired_total then
  -- Entries are over: `dropped` of the list are to go. The old state is kept, in case nothing is
  -- written.
  m.old_expired_total, m.old_first_slot, m.old_first_total =
    m.expired_total, m.first_slot, m.first_total
  if m.last_slot + m.span_micros <= m.slot then
    m.expired_total, m.dropped = m.total, 2 ^ 31
  else
    m.expired_total, m.first_slot, m.first_total, m.dropped = m.seek(
      m.list, 0, m.first_total, m.shift, m.last_slot, m.total,
      m.slot - m.span_micros + 1, 0)
  end
end
if m.ahead and m.ahead > m.span_micros then
  -- The clock has stepped back: the last entry is as of now, not as of the start of its
  -- slot. In a slot that is about to end it would be over too soon.
  m.ahead = m.last_slot - now
  m.shift = (m.shift - (2 ^ 53 - m.ahead)) % 2 ^ 53
  m.first_slot = math.max(m.first_slot - m.ahead, 0)
  m.last_slot, m.slot = now, now
  repaired, m.old_first_slot = true, nil
end
m.counted = m.total - m.expired_total
m.fits = (m.counted + cost <= m.units and m.total + cost < 2 ^ 53) or cost == 0
--- debit
local kept, units = m.counted, m.units
if m.plans then
  kept = m.total - m.plans.expired_total
  units = math.max(units, m.plans.latest_units, m.plans.others_units)
end
local most = units < 2 ^ 31 and 2 ^ 32 - 1 or 2 ^ 53 - 1
if kept + cost > most or m.total + cost >= 2 ^ 53 then
  -- More than totals can tell apart: it becomes one entry, as of now.
  call('LTRIM', m.list, '1', '0')
  m.expired_total, m.total, m.counted, m.dropped = 0, most - cost, most - cost, nil
  m.first_slot, m.last_slot, m.first_total = m.slot, m.slot, m.total
  if m.plans then
    m.plans.expired_total, m.plans.first_slot, m.plans.first_total = 0, m.slot, m.total
  end
end
--- charge
m.old_first_slot = nil
local own_counted, own_first_slot, own_first_total = m.counted, m.first_slot, m.first_total
if m.plans then
  -- Entries stay as long as they may count for any plan.
  local plans = m.plans
  m.expired_total, m.first_slot, m.first_total =
    plans.expired_total, plans.first_slot, plans.first_total
  m.dropped = nil
  if plans.others_until <= now then
    plans.others_reach, plans.others_units, plans.others_until = 0, 0, 0
  end
  local latest_until = m.last_slot + plans.latest_reach
  local is_latest = plans.latest_reach == plans.reach and plans.latest_units == m.units
    and plans.latest_slot_micros == m.slot_micros
  if not is_latest and latest_until > now and m.total > m.expired_total then
    plans.others_reach = math.max(plans.others_reach, plans.latest_reach)
    plans.others_units = math.max(plans.others_units, plans.latest_units)
    plans.others_until = math.max(plans.others_until, latest_until)
  end
  plans.latest_reach, plans.latest_units, plans.latest_slot_micros =
    plans.reach, m.units, m.slot_micros
  local reach, units =
    math.max(plans.reach, plans.others_reach), math.max(m.units, plans.others_units)
  local latest = math.max(now, m.last_slot)
  -- If no other plan is left, only what this plan counts is kept.
  if plans.others_until == 0 then reach, latest, units = m.span_micros, m.slot, 2 ^ 53 end
  local enough = math.max(m.total + cost - units, 0)
  if m.total > m.expired_total
    and (m.first_slot + reach <= latest or m.first_total <= enough) then
    if m.last_slot + reach <= latest or m.total <= enough then
      m.expired_total, m.dropped = m.total, 2 ^ 31
    else
      m.expired_total, m.first_slot, m.first_total, m.dropped = m.seek(
        m.list, 0, m.first_total, m.shift, m.last_slot, m.total,
        latest - reach + 1, enough + 1)
    end
  end
  m.counted = m.total - m.expired_total
end
if m.counted == 0 then
  -- Without a state, which was evicted, the list that is left is another log's.
  if not state then call(expire, m.list, '0') end
  if m.shift > 0 then m.shift, dirty = 0, true end
  m.first_slot, m.last_slot = m.slot, m.slot
  m.first_total, m.expired_total, m.total = cost, 0, 0
elseif m.last_slot ~= m.slot then
  if m.first_total < m.total then
    -- The last entry, which is not the first, goes to the list.
    local units, span = m.units, m.span_micros
    if m.plans then
      units, span =
        math.max(units, m.plans.others_units), math.max(span, m.plans.others_reach)
    end
    -- The sum modulo 2^53, of numbers whose sum may be more than a number tells exactly.
    local entry, slot = nil, (m.last_slot - (2 ^ 53 - m.shift)) % 2 ^ 53
    if units >= 2 ^ 31 or span >= 2 ^ 47 then
      entry = struct.pack('<I7I7', slot, m.total)
    elseif m.total < 2 ^ 24 then
      entry = struct.pack('<I6I3', slot % 2 ^ 48, m.total)
    else
      entry = struct.pack('<I6I4', slot % 2 ^ 48, m.total % 2 ^ 32)
    end
    if call('RPUSHX', m.list, entry) == 0 then
      -- A list must not be left without expiry: try whether one may be set before there
      -- is a list.
      call(expire, m.list, '0')
      call('RPUSH', m.list, entry)
      dirty = true
    end
  end
  m.last_slot = m.slot
elseif m.first_total == m.total then
  m.first_total = m.total + cost
end
m.total = m.total + cost
if m.plans then
  local plans = m.plans
  plans.expired_total, plans.first_slot, plans.first_total =
    m.expired_total, m.first_slot, m.first_total
  plans.is_charged, dirty = true, true
  if plans.others_until > 0 then
    -- The state becomes what this plan counts.
    m.id, m.tail = 0, plans.pack()
    if own_counted == 0 then
      m.expired_total, m.first_slot, m.first_total =
        m.total - cost, m.last_slot, m.total
    elseif own_counted <= m.counted then
      -- Otherwise a debit has dropped what this plan counted, and all that is left counts.
      m.expired_total = m.total - cost - own_counted
      m.first_slot, m.first_total = own_first_slot, own_first_total
    end
  else
    m.id, m.tail = m.own_id, plans.pack_only()
  end
end
--- refund
if m.plans then
  m.expired_total, m.first_slot, m.first_total =
    m.plans.expired_total, m.plans.first_slot, m.plans.first_total
  m.dropped = nil
end
m.old_first_slot = nil
m.expired_total = math.min(m.expired_total + cost, m.total)
if m.first_total <= m.expired_total then
  m.seek = m.seek or require('log_seek')
  local _
  _, m.first_slot, m.first_total, m.dropped = m.seek(
    m.list, m.dropped or 0, 0, m.shift, m.last_slot, m.total, 0, m.expired_total + 1)
end
if m.plans then
  local plans = m.plans
  plans.expired_total, plans.first_slot, plans.first_total =
    m.expired_total, m.first_slot, m.first_total
  if m.id == 0 then m.tail = plans.pack() end
  plans.is_charged = true
end
--- expire
if m.plans and not m.plans.is_charged then
  -- Only something is repaired: what is over for this plan may not be for others.
  m.plans.seen = { m.expired_total, m.first_slot, m.first_total, m.dropped }
  m.expired_total, m.first_slot, m.first_total =
    m.plans.expired_total, m.plans.first_slot, m.plans.first_total
  m.dropped = nil
elseif m.old_first_slot then
  -- Only another limit's state is repaired: what is over is kept, as a clock that steps back
  -- may count it again.
  m.old_expired_total, m.expired_total = m.expired_total, m.old_expired_total
  m.old_first_slot, m.first_slot = m.first_slot, m.old_first_slot
  m.old_first_total, m.first_total = m.first_total, m.old_first_total
  m.old_dropped, m.dropped = m.dropped, nil
end
if m.dropped and m.dropped > 0 then
  call('LTRIM', m.list, m.dropped, '-1')
  m.dropped = nil
end
if m.plans then
  m.expires_at =
    math.max(m.last_slot + math.max(m.plans.latest_reach, m.plans.reach),
      m.plans.others_until)
elseif m.total > m.expired_total then
  -- What counts is over at the start of a slot.
  m.expires_at = m.last_slot + m.span_micros
  local beyond = m.expires_at % m.slot_micros
  if beyond > 0 then m.expires_at = m.expires_at - beyond + m.slot_micros end
else
  m.expires_at = m.last_slot
end
--- reply
if m.plans and m.plans.seen then
  local seen = m.plans.seen
  m.expired_total, m.first_slot, m.first_total, m.dropped = seen[1], seen[2], seen[3], seen[4]
elseif m.old_dropped then
  m.expired_total, m.first_slot = m.old_expired_total, m.old_first_slot
  m.first_total, m.dropped = m.old_first_total, m.old_dropped
end
m.room_after, m.fresh_after, m.cost_after = 0, 0, 0
if m.counted > 0 then
  m.room_after, m.fresh_after = m.first_slot, m.last_slot
  -- Until so many units are over there is no room for one more, or for the cost.
  local _
  if m.first_total < m.total + 1 - m.units then
    _, m.room_after = m.seek(
      m.list, m.dropped or 0, 0, m.shift, m.last_slot, m.total, 0, m.total + 1 - m.units)
  end
  if not m.fits and cost <= m.units then
    m.cost_after = m.first_slot
    if m.first_total < m.total + cost - m.units then
      _, m.cost_after = m.seek(
        m.list, m.dropped or 0, 0, m.shift, m.last_slot, m.total,
        0, m.total + cost - m.units)
    end
  end
end
--- beside
-- What is held counts as the newest entry.
if held > 0 then
  local slot_after = function(total)
    if total > m.total then return m.slot end
    if total <= m.first_total then return m.first_slot end
    local _, slot = m.seek(
      m.list, m.dropped or 0, 0, m.shift, m.last_slot, m.total, 0, total)
    return slot
  end
  local all = m.total + held - m.units
  m.room_after, m.fresh_after, m.cost_after = m.slot, m.slot, 0
  if m.counted > 0 then
    m.room_after = m.counted + held <= m.units and m.first_slot or slot_after(all + 1)
  end
  if not m.fits and cost <= m.units then m.cost_after = slot_after(all + cost) end
  m.counted = math.min(m.counted + held, 2 ^ 53 - 1)
end
--- another plan
local checksum = require('checksum')
local reach = m.span_micros + m.slot_micros - 1
local pack_only = function()
  return struct.pack('<dddd', reach, m.units, m.slot_micros,
    checksum(m.own_id, reach, m.units, m.slot_micros))
end
if not state then
  m.id, m.tail, dirty = m.own_id, pack_only(), true
else
  -- The last cost was admitted under another plan, or there are several. What is kept for
  -- others may be over for this one; the state is what the latest plan counts.
  local tail = string.sub(state, m.tail_at, m.tail_end)
  if #tail ~= (m.id == 0 and 80 or 32) then error('UNREADABLE state') end
  local n = { struct.unpack(m.id == 0 and '<dddddddddd' or '<dddd', tail) }
  local sum
  if m.id == 0 then
    sum = checksum(m.total, m.last_slot, m.shift, unpack(n, 1, 9))
  else
    sum = checksum(m.id, n[1], n[2], n[3])
  end
  if n[#n - 1] ~= sum then error('UNREADABLE state') end
  for at = 1, #n - 1 do
    if not (n[at] >= 0 and n[at] < 2 ^ 54 and n[at] % 1 == 0) then error('UNREADABLE state') end
  end
  local plans = { reach = reach, pack_only = pack_only }
  plans.latest_reach, plans.latest_units, plans.latest_slot_micros = n[1], n[2], n[3]
  plans.others_reach, plans.others_units, plans.others_until = 0, 0, 0
  if m.id == 0 then
    plans.others_reach, plans.others_units, plans.others_until = n[4], n[5], n[6]
    m.expired_total, m.first_slot, m.first_total = n[7], n[8], n[9]
    if m.first_slot > m.last_slot or m.first_total > m.total or m.expired_total > m.total
      or (m.expired_total >= m.first_total and m.expired_total < m.total) then
      error('UNREADABLE state')
    end
  elseif not (m.id > 0 and m.id < 2 ^ 53 and m.id % 1 == 0) then
    error('UNREADABLE state')
  end
  plans.pack = function()
    local n = {
      plans.latest_reach, plans.latest_units, plans.latest_slot_micros,
      plans.others_reach, plans.others_units, plans.others_until,
      plans.expired_total, plans.first_slot, plans.first_total,
    }
    n[10] = checksum(m.total, m.last_slot, m.shift, unpack(n))
    return struct.pack('<dddddddddd', unpack(n))
  end
  if m.last_slot > now - now % m.slot_micros + m.span_micros then
    local ahead = m.last_slot - now
    m.shift, m.last_slot, repaired = (m.shift - (2 ^ 53 - ahead)) % 2 ^ 53, now, true
    m.first_slot, plans.others_until =
      math.max(m.first_slot - ahead, 0), math.max(plans.others_until - ahead, 0)
  end
  plans.expired_total, plans.first_slot, plans.first_total =
    m.expired_total, m.first_slot, m.first_total
  if repaired and m.id == 0 then m.tail = plans.pack() end
  m.plans = plans
end
