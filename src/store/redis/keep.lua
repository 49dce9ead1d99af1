  if state and #state == #kept then
    redis.call('SETRANGE', KEYS[1], '0', kept)
    if moves then
      redis.call('PEXPIRE' .. at, KEYS[1], string.format('%d', math.max(kept_until - origin, shortest)))
    end
  elseif moves then
    redis.call('SET', KEYS[1], kept, 'PX' .. at, string.format('%d', math.max(kept_until - origin, shortest)))
  else
    redis.call('SET', KEYS[1], kept, 'KEEPTTL')
  end
