-- Writes a state that has changed, and its expiry if that is too early or no longer right.
--
-- The key lives a sixty-fourth and a second longer than its state matters, so that few charges move
-- the expiry. Most write only what they reply, over the start of the value.
--
-- Given  kept             what a charge replies: a byte 1, now and the numbers of the state
--        state            what was read, nil if there was nothing
--        key_expires_at   when the key expires, in microseconds: it is kept with the state
--        repaired, dirty  whether the state was moved to now, and whether private numbers or the
--                         tail have changed
--        expire           the command that sets an expiry
-- Words in capitals stand for what the composer puts there: MILLISECONDS and SET_OPTION for an
-- instant and PXAT, or, if the time is the caller's, for a duration of at least a minute and PX;
-- FURTHER_KEYS for the expiry of further keys.
--- write
if EXPIRES_AT >= key_expires_at or repaired or dirty then
  local longer = 0
  if EXPIRES_AT > now then longer = (EXPIRES_AT - now) / 64 + 1000000 end
  key_expires_at = math.ceil(EXPIRES_AT + longer)
  local whole = kept .. PRIVATE_NUMBERS
  local milliseconds = string.format('%d', MILLISECONDS)
  if state and not TAIL_CHANGED then
    call('SETRANGE', key, '0', whole)
    call(expire, key, milliseconds)
  else
    whole = whole .. TAIL
    call('SET', key, whole, SET_OPTION, milliseconds)
  end
  FURTHER_KEYS()
else
  call('SETRANGE', key, '0', kept)
end
