-- Decides about a cost: holds or charges it if all limits have room for it.
--
-- m1       a limit that counts a cost of 1 or more as 1; state layout: `in-flight-held`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for
-- Reply    charged: a byte 1, then doubles: now, m1_taken, m1_generation_start
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_taken, m1_generation_start
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now,
--            m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start, m1_later_end,
--            m1_later_held, key_expires_at;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local ended
local m1_rewritten, m1_fits, m1_expires_at, m1_capacity, m1_taken, m1_hold_at,
  m1_generation_start
local cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for
  = struct.unpack('<ddddd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
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

-- m1: has the cost room?
do
  local cost = cost > 0 and 1 or 0
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
      cost = cost + m1_earlier_held + m1_later_held
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

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  do
    local cost = cost > 0 and 1 or 0
    m1_hold_at = now
    if m1_later_start > now then m1_hold_at = m1_later_start end
    if m1_hold_at + m1_held_at_most >= m1_later_end then
      if m1_earlier_held > 0 and m1_later_held > 0 then
        -- Another plan holds for longer: both generations still run.
        m1_later_end = m1_hold_at + m1_held_at_most
      else
        if m1_later_held > 0 then
          m1_earlier_start, m1_earlier_end = m1_later_start, m1_later_end
          m1_earlier_held = m1_later_held
        end
        -- No two generations begin at the same instant.
        m1_later_start = math.max(m1_hold_at, m1_later_start + 1)
        m1_later_end = m1_hold_at + m1_generation_time
        m1_later_held = 0
      end
    end
    m1_later_held = m1_later_held + cost
    m1_generation_start = m1_later_start
  end
end

if charged or repaired then
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

-- m1: reply
m1_generation_start = m1_generation_start or 0
do
  local held = m1_earlier_held + m1_later_held
  m1_taken = 0
  m1_taken = held
end
if charged then
  return struct.pack('<Bddd', 1, now, m1_taken, m1_generation_start)
end
-- Nothing was charged.
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bdddd', 0, now, admits, m1_taken, m1_generation_start)
