  if state then redis.call('SETRANGE', KEYS[1], '0', kept) end
  if moves then
    local expires = math.ceil(kept_until / 1000)
    if at == '' then expires = math.max(expires - math.floor(now / 1000), 60000) end
    expires = string.format('%d', expires)
    if state then
      redis.call('PEXPIRE' .. at, KEYS[1], expires)
    else
      redis.call('SET', KEYS[1], kept, 'PX' .. at, expires)
    end
    -- further keys
  end
