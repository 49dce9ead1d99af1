-- Renews the places of several states, whose keys and arguments follow one another. `held` places
-- of a generation then last as long as those that are taken now. Lost places, up to `wanted`, are
-- held again as far as there is room.
--
-- m1       a limit that counts a cost of 1 or more as 1; state layout: `in-flight-held`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for,
--            m1_settled_start, held, wanted
-- Reply    for each state doubles: m1_generation_start, m1_renewed;
--          zeros for a value that no script wrote
-- Writes   KEYS[1], if places move or are held again: a byte 1, then doubles: now,
--            m1_earlier_start, m1_earlier_end, m1_earlier_held, m1_later_start, m1_later_end,
--            m1_later_held, key_expires_at;
--          expires at key_expires_at
-- Error    that of a command that the server refuses

local function one(KEYS, ARGV)
local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local ended
local m1_rewritten, m1_fits, m1_expires_at, m1_capacity, m1_taken, m1_renewed, m1_hold_at,
  m1_generation_start, m1_renewed_before
local cost, m1_max, m1_held_at_most, m1_generation_time, m1_matters_for, m1_settled_start, held,
  wanted = struct.unpack('<dddddddd', numbers)

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

-- m1: the state before the renewal
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
      cost, m1_renewed = 0, 0
      if m1_settled_start > 0 and m1_settled_start == m1_earlier_start then
        m1_renewed = math.min(m1_earlier_held, held)
        m1_earlier_held = m1_earlier_held - m1_renewed
      elseif m1_settled_start > 0 and m1_settled_start == m1_later_start then
        m1_renewed = math.min(m1_later_held, held)
        m1_later_held = m1_later_held - m1_renewed
      end
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
-- m1: renew
-- Lost places are held again as far as there is room: no place of others is taken.
m1_capacity = m1_max
m1_renewed_before = m1_renewed
m1_renewed = math.max(m1_renewed, m1_capacity - m1_earlier_held - m1_later_held)
if m1_renewed > wanted then m1_renewed = wanted end
m1_generation_start = 0
if m1_renewed > 0 then
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
  m1_later_held = m1_later_held + m1_renewed
  m1_generation_start = m1_later_start
end
if m1_renewed ~= m1_renewed_before or m1_renewed > 0 and m1_later_start ~= m1_settled_start then
  dirty = true
end

if dirty or repaired then
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

return struct.pack('<dd', m1_generation_start, m1_renewed)
end

local replies = {}
for at = 1, #ARGV do
  local keys = {}
  for number = 1, 1 do keys[number] = KEYS[(at - 1) * 1 + number] end
  local runs, reply = pcall(one, keys, {ARGV[at]})
  if not runs or type(reply) == 'table' then
    -- A value that no script wrote is passed over. If the server cannot write, all fail.
    local message = type(reply) == 'table' and reply.err or reply
    local is_foreign = string.find(message, 'WRONGTYPE', 1, true)
      or string.find(message, 'UNREADABLE', 1, true)
    if not is_foreign then error(reply, 0) end
    reply = string.rep('\0', 16)
  end
  replies[at] = reply
end
return table.concat(replies)
