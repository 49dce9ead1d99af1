-- Around the rules: reads each state, asks each member, and writes what all of them admit. The
-- lines that name members are repeated for each of them (`script.rs`).
--
-- KEYS     for each limit the key of its state, then the list of each member that has one
-- ARGV[1]  doubles: op; the caller's time in microseconds, or -1 if the server's counts; then of
--          each member its cost and its numbers; then of each how long it holds (0: never), and how
--          long a hold matters after its end
-- ARGV[2]  to SETTLE: of each member that holds, the generation and the units; of each queue, what
--          the admission left. To TAKE_BACK: the value that the charge replied
-- Value    of a state: a byte 1, then whole numbers of 7 bytes: last, ahead, the state of each
--          member, key_expires_at; while units are held, the tail: two generations of each member
-- Reply    a byte 0 if it is not charged, else 1, of a script that holds 3; numbers: a bit for each
--          member that has room, what members say of a list (not in a reply of 1), of each limit
--          its time and the bytes of its value; the values: as they are stored, or if it is charged
--          without key_expires_at. Only a byte 2, if a value has a tail and this script does not
--          hold: the one that holds is for it, with the same arguments
-- Error    UNREADABLE, if a key has a value that no script wrote
local DECIDE, LOOK, CHANGE, SETTLE, TAKE_BACK = 0, 1, 2, 3, 4
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local op, now = unpack('<dd', ARGV[1])
local must, is_callers, has_new_list, _ = op > LOOK, now >= 0, false, nil
local time = not is_callers and call('TIME')
if time then now = time[1] * 1000000 + time[2] end

-- The time of a state never goes back. If the server's does, no time passes for the state until the
-- server has caught up; if that would take longer than the key lives, the state goes on where it
-- was, ahead of the server.
local function catch_up(key, last, ahead, key_expires_at)
  local at = now + ahead
  if at >= last then return at, ahead end
  if last - at > key_expires_at - last then
    ahead = ahead + last - at
    call('SETRANGE', key, 1, pack('<I7I7', last, ahead))
  end
  return last, ahead
end

-- Writes a value, and its expiry if that is too early. The key lives a sixty-fourth and a second
-- longer than its state matters, so that few charges move the expiry.
local function write(stored, value, tail, at, ahead, ends, expiry, key, ...)
  if ends < expiry and not is_callers and not has_new_list and #tail + #value + 7 == #stored then
    call('SETRANGE', key, 0, tail == '' and value or value .. pack('<I7', expiry) .. tail)
  elseif stored ~= '' or ends > at then
    expiry = math.max(expiry, math.min(ends + math.ceil((ends - at) / 64) + 1e6, 2 ^ 53 - 1))
    -- Expiry goes by the server's clock: with a caller's it is a minute at least.
    local lasts = math.max(math.ceil((expiry - ahead - now) / 1000), is_callers and 60000 or 1)
    call('SET', key, value .. pack('<I7', expiry) .. tail, 'PX', lasts)
    for _, list in ipairs({ ... }) do call('PEXPIRE', list, lasts) end
  end
end
