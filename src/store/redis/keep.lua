  if state then call('SETRANGE', key, '0', kept) end
  if moves then
    local expires = math.ceil(kept_until / 1000)
    if at == '' then expires = math.max(expires - math.floor(now / 1000), 60000) end
    expires = string.format('%d', expires)
    if state then
      call('PEXPIRE' .. at, key, expires)
    else
      call('SET', key, kept, 'PX' .. at, expires)
    end
    -- further keys
  end
