-- Decides about a cost: charges it if all limits have room for it.
--
-- m1       a limit; state layout: `interval`
-- KEYS[1]  the state of m1
-- ARGV[1]  doubles: cost, m1_interval
-- Reply    charged: a byte 1, then doubles: now, m1_stamp, m1_was_admitted
--          not charged: a byte 0, then doubles: now, 1 if m1 admits, m1_stamp, m1_was_admitted
-- Writes   KEYS[1], if it charges or repairs the state: a byte 1, then doubles: now, m1_stamp,
--            m1_was_admitted, key_expires_at;
--          expires at key_expires_at
-- Error    UNREADABLE, if a key has a value that no script wrote

local call, struct, key, numbers = redis.call, struct, KEYS[1], ARGV[1]
local expire, dirty, repaired = 'PEXPIREAT', nil, nil
local m1_fits, m1_expires_at
local cost, m1_interval = struct.unpack('<dd', numbers)

-- The time.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The state: all zeros if there is none.
local state = call('GET', key)
if state and #state ~= 33 then return redis.error_reply('UNREADABLE state') end
local m1_stamp, m1_was_admitted, key_expires_at
  = struct.unpack('<ddd', state or string.rep('\0', 33), 10)
if not (m1_stamp >= 0 and m1_was_admitted >= 0 and key_expires_at >= 0
  and m1_stamp + m1_was_admitted + key_expires_at < 2 ^ 58
  and m1_stamp % 1 + m1_was_admitted % 1 + key_expires_at % 1 == 0) then
  return redis.error_reply('UNREADABLE state')
end

-- m1: has the cost room?
if m1_stamp > now + m1_interval then
  -- The clock has stepped back.
  m1_stamp, repaired = now, true
end
m1_fits = m1_stamp + m1_interval <= now or m1_was_admitted == 0 or cost == 0

local charged = m1_fits and cost > 0
if charged then
  -- m1: charge
  m1_was_admitted = 1
  if now > m1_stamp then m1_stamp = now end
end

if charged or repaired then
  -- m1: when does its state expire?
  m1_expires_at = m1_stamp + m1_was_admitted * m1_interval
  -- Write.
  local kept = struct.pack('<Bddd', 1, now, m1_stamp, m1_was_admitted)
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
  if charged then return kept end
end

-- Nothing was charged.
local admits = 0
if m1_fits then admits = admits + 1 end
return struct.pack('<Bdddd', 0, now, admits, m1_stamp, m1_was_admitted)
