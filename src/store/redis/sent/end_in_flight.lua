-- Settles: `cost` was spent of the units that an admission holds.
--
-- m1       a limit that counts a cost of 1 or more as 1; state layout: `in-flight-held`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for,
--            m1_settled_start, held
-- Reply    nothing
-- Writes   KEYS[1], if there is a state, or more was spent than held: a byte 1, then doubles: now,
--            m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start, m1_later_end,
--            m1_later_held, key_expires_at;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local ended
local m1_rewritten, m1_fits, m1_expires_at, m1_capacity, m1_taken, m1_charged
local cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for, m1_settled_start, held
  = struct.unpack('<ddddddd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
if not state and cost <= held then return '' end
if state and #state ~= 65 then return redis.error_reply('UNREADABLE state') end
local m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start, m1_later_end,
  m1_later_held, key_expires_at = struct.unpack('<ddddddd', state or string.rep('\0', 65), 10)
if not (m1_earlier_start >= 0 and m1_earlier_end >= 0 and m1_earlier_held >= 0 and
  m1_later_start >= 0 and m1_later_end >= 0 and m1_later_held >= 0 and key_expires_at >= 0
  and m1_earlier_start + m1_earlier_end + m1_earlier_held + m1_later_start + m1_later_end +
  m1_later_held + key_expires_at < 2 ^ 58
  and m1_earlier_start % 1 + m1_earlier_end % 1 + m1_earlier_held % 1 + m1_later_start % 1 +
  m1_later_end % 1 + m1_later_held % 1 + key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: the state before the settlement
do
  local cost = cost > 0 and 1 or 0
  local held = held > 0 and 1 or 0
  if m1_later_start > now + m1_generation_time then
    -- The clock has stepped back: generations begin now, and no receipt names them any more.
    m1_earlier_end = math.max(m1_earlier_end - math.max(m1_earlier_start - now, 0), 0)
    m1_later_end = math.max(m1_later_end - (m1_later_start - now), 0)
    m1_earlier_start, m1_later_start, repaired = 0, now, true
  end
  repeat
    -- First once for each generation that has ended, in the order of their ends.
    local cost, now, state, has_ended = cost, now, m1_rewritten or state, false
    if m1_later_held > 0 and m1_later_end <= now
      or m1_earlier_held > 0 and m1_earlier_end <= now then
      has_ended = true
      if m1_later_held > 0 and m1_later_end <= now
        and not (m1_earlier_held > 0 and m1_earlier_end <= m1_later_end) then
        cost, now, m1_later_held = m1_later_held, m1_later_end, 0
      else
        cost, now, m1_earlier_held = m1_earlier_held, m1_earlier_end, 0
      end
    else
      if m1_settled_start > 0 and m1_settled_start == m1_earlier_start and m1_earlier_held > 0 then
        m1_earlier_held = m1_earlier_held > held and m1_earlier_held - held or 0
      elseif m1_settled_start > 0 and m1_settled_start == m1_later_start and m1_later_held > 0 then
        m1_later_held = m1_later_held > held and m1_later_held - held or 0
      else
        -- The hold is gone: only what was spent beyond it is charged.
        cost = math.max(cost - held, 0)
      end
      m1_charged = cost
    end
    m1_fits = cost <= m1_max
    if has_ended then
      m1_expires_at = 0
      m1_fits, m1_capacity, m1_expires_at, m1_taken = nil
      repaired, dirty, ended = true, true, true
    end
  until not has_ended
  m1_fits = m1_fits or cost == 0
end

do
  -- m1: when does its state expire?
  m1_expires_at = 0
  if m1_earlier_held > 0 and m1_earlier_end > m1_expires_at then m1_expires_at = m1_earlier_end end
  if m1_later_held > 0 and m1_later_end > m1_expires_at then m1_expires_at = m1_later_end end
  if m1_earlier_held + m1_later_held > 0 then m1_expires_at = m1_expires_at + m1_matters_for end
  -- Write.
  local kept = struct.pack('<Bddddddd', 1, now, m1_earlier_start, m1_earlier_end, m1_earlier_held,
    m1_later_start, m1_later_end, m1_later_held)
  if m1_expires_at >= key_expires_at or repaired or dirty then
    local longer = 0
    if m1_expires_at > now then longer = (m1_expires_at - now) / 64 + 1000000 end
    key_expires_at = math.ceil(m1_expires_at + longer)
    local whole = kept .. struct.pack('<d', key_expires_at)
    local milliseconds = string.format('%d', math.max(math.ceil(key_expires_at / 1000), 1))
    if state then
      call('SETRANGE', key, '0', whole)
      call(expire, key, milliseconds)
    else
      call('SET', key, whole, 'PXAT', milliseconds)
    end
  else
    call('SETRANGE', key, '0', kept)
  end
end
return ''
