-- Decides about a cost: charges it if all limits have room for it.
--
-- m1       a limit; state layout: `log`
-- KEYS[1]  the state of m1
-- KEYS[2]  m1_list
-- ARGV[1]  doubles: cost, m1_units, m1_slot_micros, m1_span_micros, m1_own_id
-- Reply    charged: a byte 1, then doubles: now, m1_expired_total, m1_total, m1_first_slot,
--            m1_first_total, m1_last_slot
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_counted, m1_room_after,
--            m1_fresh_after, m1_cost_after
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now,
--            m1_expired_total, m1_total, m1_first_slot, m1_first_total, m1_last_slot,
--            key_expires_at, m1_id, m1_shift;
--          then m1_tail;
--          expires at key_expires_at
-- Writes   KEYS[2], only with KEYS[1]: m1_list; expires with KEYS[1]
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local m1_list, m1_tail, m1_tail_at, m1_tail_end, m1_plans, m1_slot, m1_ahead, m1_seek,
  m1_old_expired_total, m1_old_first_slot, m1_old_first_total, m1_dropped, m1_counted, m1_fits,
  m1_old_dropped, m1_expires_at, m1_room_after, m1_fresh_after, m1_cost_after
local cost, m1_units, m1_slot_micros, m1_span_micros, m1_own_id
  = struct.unpack('<ddddd', numbers)
m1_list = KEYS[2]

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
m1_tail_at, m1_tail_end = 74, 105
if state and #state ~= 105 then
  if #state < 73 then return redis.error_reply('UNREADABLE state') end
  local tail_end = 73
  m1_tail_at = tail_end + 1
  tail_end = tail_end + (struct.unpack('<d', state, 58) == 0 and 80 or 32)
  m1_tail_end = tail_end
  if #state ~= tail_end then return redis.error_reply('UNREADABLE state') end
end
local m1_expired_total, m1_total, m1_first_slot, m1_first_total, m1_last_slot, key_expires_at,
  m1_id, m1_shift = struct.unpack('<dddddddd', state or string.rep('\0', 73), 10)
if not (m1_expired_total >= 0 and m1_total >= 0 and m1_first_slot >= 0 and
  m1_first_total >= 0 and m1_last_slot >= 0 and key_expires_at >= 0
  and m1_expired_total + m1_total + m1_first_slot + m1_first_total + m1_last_slot +
  key_expires_at < 2 ^ 58
  and m1_expired_total % 1 + m1_total % 1 + m1_first_slot % 1 + m1_first_total % 1 +
  m1_last_slot % 1 + key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: has the cost room?
if m1_shift ~= 0 and not (m1_shift > 0 and m1_shift < 2 ^ 53 and m1_shift % 1 == 0) then
  error('UNREADABLE state')
end
if m1_first_slot > m1_last_slot or m1_first_total > m1_total or m1_expired_total > m1_total
  or (m1_expired_total >= m1_first_total and m1_expired_total < m1_total) then
  error('UNREADABLE state')
end
if m1_id ~= m1_own_id then
  local checksum = (function()
    -- checksum.lua
    return function(...)
      local sum = 0
      for _, number in ipairs({ ... }) do
        sum = (sum * 31 + number % 4294967291) % 4294967291
      end
      return sum
    end
  end)()
  local reach = m1_span_micros + m1_slot_micros - 1
  local pack_only = function()
    return struct.pack('<dddd', reach, m1_units, m1_slot_micros,
      checksum(m1_own_id, reach, m1_units, m1_slot_micros))
  end
  if not state then
    m1_id, m1_tail, dirty = m1_own_id, pack_only(), true
  else
    -- The last cost was admitted under another plan, or there are several. What is kept for
    -- others may be over for this one; the state is what the latest plan counts.
    local tail = string.sub(state, m1_tail_at, m1_tail_end)
    if #tail ~= (m1_id == 0 and 80 or 32) then error('UNREADABLE state') end
    local n = { struct.unpack(m1_id == 0 and '<dddddddddd' or '<dddd', tail) }
    local sum
    if m1_id == 0 then
      sum = checksum(m1_total, m1_last_slot, m1_shift, unpack(n, 1, 9))
    else
      sum = checksum(m1_id, n[1], n[2], n[3])
    end
    if n[#n - 1] ~= sum then error('UNREADABLE state') end
    for at = 1, #n - 1 do
      if not (n[at] >= 0 and n[at] < 2 ^ 54 and n[at] % 1 == 0) then error('UNREADABLE state') end
    end
    local plans = { reach = reach, pack_only = pack_only }
    plans.latest_reach, plans.latest_units, plans.latest_slot_micros = n[1], n[2], n[3]
    plans.others_reach, plans.others_units, plans.others_until = 0, 0, 0
    if m1_id == 0 then
      plans.others_reach, plans.others_units, plans.others_until = n[4], n[5], n[6]
      m1_expired_total, m1_first_slot, m1_first_total = n[7], n[8], n[9]
      if m1_first_slot > m1_last_slot or m1_first_total > m1_total or m1_expired_total > m1_total
        or (m1_expired_total >= m1_first_total and m1_expired_total < m1_total) then
        error('UNREADABLE state')
      end
    elseif not (m1_id > 0 and m1_id < 2 ^ 53 and m1_id % 1 == 0) then
      error('UNREADABLE state')
    end
    plans.pack = function()
      local n = {
        plans.latest_reach, plans.latest_units, plans.latest_slot_micros,
        plans.others_reach, plans.others_units, plans.others_until,
        plans.expired_total, plans.first_slot, plans.first_total,
      }
      n[10] = checksum(m1_total, m1_last_slot, m1_shift, unpack(n))
      return struct.pack('<dddddddddd', unpack(n))
    end
    if m1_last_slot > now - now % m1_slot_micros + m1_span_micros then
      local ahead = m1_last_slot - now
      m1_shift, m1_last_slot, repaired = (m1_shift - (2 ^ 53 - ahead)) % 2 ^ 53, now, true
      m1_first_slot, plans.others_until =
        math.max(m1_first_slot - ahead, 0), math.max(plans.others_until - ahead, 0)
    end
    plans.expired_total, plans.first_slot, plans.first_total =
      m1_expired_total, m1_first_slot, m1_first_total
    if repaired and m1_id == 0 then m1_tail = plans.pack() end
    m1_plans = plans
  end
end
m1_slot = now - now % m1_slot_micros
if m1_last_slot > m1_slot then
  m1_ahead = m1_last_slot - m1_slot
  m1_slot = m1_last_slot
end
-- The list is read only if entries are over, if there may be no room, or for other plans.
if m1_first_slot + m1_span_micros <= m1_slot or m1_first_total <= m1_total + cost - m1_units
  or m1_plans then
  m1_seek = (function()
    -- log_seek.lua
    return function(list, from, before, shift, last_slot, last_total, least_slot, least_total)
      local last = (last_slot - (2 ^ 53 - shift)) % 2 ^ 53
      local low, high, probe, slot, total = from, 2 ^ 31, from, nil, nil
      while low < high do
        local entry = redis.call('LINDEX', list, probe)
        local its_slot, its_total = 0, 0
        if entry then
          local bits = 48
          if #entry == 14 then
            bits, its_slot, its_total = 53, struct.unpack('<I7I7', entry)
          elseif #entry == 9 then
            its_slot, its_total = struct.unpack('<I6I3', entry)
          elseif #entry == 10 then
            its_slot, its_total = struct.unpack('<I6I4', entry)
            its_total = last_total - (last_total - its_total) % 2 ^ 32
          else
            error('UNREADABLE entry')
          end
          its_slot = math.max(last_slot - (last - its_slot) % 2 ^ bits, 0)
        end
        -- Totals grow up to the last one. In a list that no script wrote they mostly do not.
        if entry and (its_total < before or its_total > last_total) then
          error('UNREADABLE entry')
        end
        if not entry then
          high, slot = probe, nil
        elseif its_slot >= least_slot and its_total >= least_total then
          high, slot, total = probe, its_slot, its_total
        else
          low, before = probe + 1, its_total
        end
        -- Steps grow until one goes too far: the entry is mostly near the start.
        probe = math.floor((low + high) / 2)
        if high == 2 ^ 31 then probe = math.min(2 * low - from, high - 1) end
      end
      if slot then return before, slot, total, low + 1 end
      return before, last_slot, last_total, low
    end
  end)()
end
if m1_first_slot + m1_span_micros <= m1_slot and m1_total > m1_expired_total then
  -- Entries are over: `dropped` of the list are to go. The old state is kept, in case nothing is
  -- written.
  m1_old_expired_total, m1_old_first_slot, m1_old_first_total =
    m1_expired_total, m1_first_slot, m1_first_total
  if m1_last_slot + m1_span_micros <= m1_slot then
    m1_expired_total, m1_dropped = m1_total, 2 ^ 31
  else
    m1_expired_total, m1_first_slot, m1_first_total, m1_dropped = m1_seek(
      m1_list, 0, m1_first_total, m1_shift, m1_last_slot, m1_total,
      m1_slot - m1_span_micros + 1, 0)
  end
end
if m1_ahead and m1_ahead > m1_span_micros then
  -- The clock has stepped back: the last entry is as of now, not as of the start of its
  -- slot. In a slot that is about to end it would be over too soon.
  m1_ahead = m1_last_slot - now
  m1_shift = (m1_shift - (2 ^ 53 - m1_ahead)) % 2 ^ 53
  m1_first_slot = math.max(m1_first_slot - m1_ahead, 0)
  m1_last_slot, m1_slot = now, now
  repaired, m1_old_first_slot = true, nil
end
m1_counted = m1_total - m1_expired_total
m1_fits = (m1_counted + cost <= m1_units and m1_total + cost < 2 ^ 53) or cost == 0

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  m1_old_first_slot = nil
  local own_counted, own_first_slot, own_first_total = m1_counted, m1_first_slot, m1_first_total
  if m1_plans then
    -- Entries stay as long as they may count for any plan.
    local plans = m1_plans
    m1_expired_total, m1_first_slot, m1_first_total =
      plans.expired_total, plans.first_slot, plans.first_total
    m1_dropped = nil
    if plans.others_until <= now then
      plans.others_reach, plans.others_units, plans.others_until = 0, 0, 0
    end
    local latest_until = m1_last_slot + plans.latest_reach
    local is_latest = plans.latest_reach == plans.reach and plans.latest_units == m1_units
      and plans.latest_slot_micros == m1_slot_micros
    if not is_latest and latest_until > now and m1_total > m1_expired_total then
      plans.others_reach = math.max(plans.others_reach, plans.latest_reach)
      plans.others_units = math.max(plans.others_units, plans.latest_units)
      plans.others_until = math.max(plans.others_until, latest_until)
    end
    plans.latest_reach, plans.latest_units, plans.latest_slot_micros =
      plans.reach, m1_units, m1_slot_micros
    local reach, units =
      math.max(plans.reach, plans.others_reach), math.max(m1_units, plans.others_units)
    local latest = math.max(now, m1_last_slot)
    -- If no other plan is left, only what this plan counts is kept.
    if plans.others_until == 0 then reach, latest, units = m1_span_micros, m1_slot, 2 ^ 53 end
    local enough = math.max(m1_total + cost - units, 0)
    if m1_total > m1_expired_total
      and (m1_first_slot + reach <= latest or m1_first_total <= enough) then
      if m1_last_slot + reach <= latest or m1_total <= enough then
        m1_expired_total, m1_dropped = m1_total, 2 ^ 31
      else
        m1_expired_total, m1_first_slot, m1_first_total, m1_dropped = m1_seek(
          m1_list, 0, m1_first_total, m1_shift, m1_last_slot, m1_total,
          latest - reach + 1, enough + 1)
      end
    end
    m1_counted = m1_total - m1_expired_total
  end
  if m1_counted == 0 then
    -- Without a state, which was evicted, the list that is left is another log's.
    if not state then call(expire, m1_list, '0') end
    if m1_shift > 0 then m1_shift, dirty = 0, true end
    m1_first_slot, m1_last_slot = m1_slot, m1_slot
    m1_first_total, m1_expired_total, m1_total = cost, 0, 0
  elseif m1_last_slot ~= m1_slot then
    if m1_first_total < m1_total then
      -- The last entry, which is not the first, goes to the list.
      local units, span = m1_units, m1_span_micros
      if m1_plans then
        units, span =
          math.max(units, m1_plans.others_units), math.max(span, m1_plans.others_reach)
      end
      -- The sum modulo 2^53, of numbers whose sum may be more than a number tells exactly.
      local entry, slot = nil, (m1_last_slot - (2 ^ 53 - m1_shift)) % 2 ^ 53
      if units >= 2 ^ 31 or span >= 2 ^ 47 then
        entry = struct.pack('<I7I7', slot, m1_total)
      elseif m1_total < 2 ^ 24 then
        entry = struct.pack('<I6I3', slot % 2 ^ 48, m1_total)
      else
        entry = struct.pack('<I6I4', slot % 2 ^ 48, m1_total % 2 ^ 32)
      end
      if call('RPUSHX', m1_list, entry) == 0 then
        -- A list must not be left without expiry: try whether one may be set before there
        -- is a list.
        call(expire, m1_list, '0')
        call('RPUSH', m1_list, entry)
        dirty = true
      end
    end
    m1_last_slot = m1_slot
  elseif m1_first_total == m1_total then
    m1_first_total = m1_total + cost
  end
  m1_total = m1_total + cost
  if m1_plans then
    local plans = m1_plans
    plans.expired_total, plans.first_slot, plans.first_total =
      m1_expired_total, m1_first_slot, m1_first_total
    plans.is_charged, dirty = true, true
    if plans.others_until > 0 then
      -- The state becomes what this plan counts.
      m1_id, m1_tail = 0, plans.pack()
      if own_counted == 0 then
        m1_expired_total, m1_first_slot, m1_first_total =
          m1_total - cost, m1_last_slot, m1_total
      elseif own_counted <= m1_counted then
        -- Otherwise a debit has dropped what this plan counted, and all that is left counts.
        m1_expired_total = m1_total - cost - own_counted
        m1_first_slot, m1_first_total = own_first_slot, own_first_total
      end
    else
      m1_id, m1_tail = m1_own_id, plans.pack_only()
    end
  end
end

if charged or repaired then
  -- m1: when does its state expire?
  if m1_plans and not m1_plans.is_charged then
    -- Only something is repaired: what is over for this plan may not be for others.
    m1_plans.seen = { m1_expired_total, m1_first_slot, m1_first_total, m1_dropped }
    m1_expired_total, m1_first_slot, m1_first_total =
      m1_plans.expired_total, m1_plans.first_slot, m1_plans.first_total
    m1_dropped = nil
  elseif m1_old_first_slot then
    -- Only another limit's state is repaired: what is over is kept, as a clock that steps back
    -- may count it again.
    m1_old_expired_total, m1_expired_total = m1_expired_total, m1_old_expired_total
    m1_old_first_slot, m1_first_slot = m1_first_slot, m1_old_first_slot
    m1_old_first_total, m1_first_total = m1_first_total, m1_old_first_total
    m1_old_dropped, m1_dropped = m1_dropped, nil
  end
  if m1_dropped and m1_dropped > 0 then
    call('LTRIM', m1_list, m1_dropped, '-1')
    m1_dropped = nil
  end
  if m1_plans then
    m1_expires_at =
      math.max(m1_last_slot + math.max(m1_plans.latest_reach, m1_plans.reach),
        m1_plans.others_until)
  elseif m1_total > m1_expired_total then
    -- What counts is over at the start of a slot.
    m1_expires_at = m1_last_slot + m1_span_micros
    local beyond = m1_expires_at % m1_slot_micros
    if beyond > 0 then m1_expires_at = m1_expires_at - beyond + m1_slot_micros end
  else
    m1_expires_at = m1_last_slot
  end
  -- Write.
  local kept = struct.pack('<Bdddddd', 1, now, m1_expired_total, m1_total, m1_first_slot,
    m1_first_total, m1_last_slot)
  if m1_expires_at >= key_expires_at or repaired or dirty then
    local longer = 0
    if m1_expires_at > now then longer = (m1_expires_at - now) / 64 + 1000000 end
    key_expires_at = math.ceil(m1_expires_at + longer)
    local whole = kept .. struct.pack('<ddd', key_expires_at, m1_id, m1_shift)
    local milliseconds = string.format('%d', math.max(math.ceil(key_expires_at / 1000), 1))
    if state and not m1_tail then
      call('SETRANGE', key, '0', whole)
      call(expire, key, milliseconds)
    else
      whole = whole .. (m1_tail or string.sub(state, m1_tail_at, m1_tail_end))
      call('SET', key, whole, 'PXAT', milliseconds)
    end
    call(expire, KEYS[2], milliseconds)
  else
    call('SETRANGE', key, '0', kept)
  end
  if charged then return kept end
end

-- Nothing was charged.
-- m1: reply
if m1_plans and m1_plans.seen then
  local seen = m1_plans.seen
  m1_expired_total, m1_first_slot, m1_first_total, m1_dropped = seen[1], seen[2], seen[3], seen[4]
elseif m1_old_dropped then
  m1_expired_total, m1_first_slot = m1_old_expired_total, m1_old_first_slot
  m1_first_total, m1_dropped = m1_old_first_total, m1_old_dropped
end
m1_room_after, m1_fresh_after, m1_cost_after = 0, 0, 0
if m1_counted > 0 then
  m1_room_after, m1_fresh_after = m1_first_slot, m1_last_slot
  -- Until so many units are over there is no room for one more, or for the cost.
  local _
  if m1_first_total < m1_total + 1 - m1_units then
    _, m1_room_after = m1_seek(
      m1_list, m1_dropped or 0, 0, m1_shift, m1_last_slot, m1_total, 0, m1_total + 1 - m1_units)
  end
  if not m1_fits and cost <= m1_units then
    m1_cost_after = m1_first_slot
    if m1_first_total < m1_total + cost - m1_units then
      _, m1_cost_after = m1_seek(
        m1_list, m1_dropped or 0, 0, m1_shift, m1_last_slot, m1_total,
        0, m1_total + cost - m1_units)
    end
  end
end
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bdddddd', 0, now, admits, m1_counted, m1_room_after, m1_fresh_after,
  m1_cost_after)
