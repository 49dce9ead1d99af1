  if the_latest >= kept_until or mends or moves then
    -- Kept a sixty-fourth and a second longer than it matters, so that not every charge moves the expiry.
    local longer = 0
    if the_latest > now then longer = (the_latest - now) / 64 + 1000000 end
    kept_until = math.ceil(the_latest + longer)
    local whole = kept .. what_is_aside
    local command, expires = 'PEXPIREAT', math.max(math.ceil(kept_until / 1000), 1)
    if relative then
      command, expires = 'PEXPIRE', math.max(expires - math.floor(now / 1000), 60000)
    end
    expires = string.format('%d', expires)
    if state and lanes_are_the_same then
      call('SETRANGE', key, '0', whole)
      call(command, key, expires)
    elseif relative then
      call('SET', key, whole .. lanes, 'PX', expires)
    else
      call('SET', key, whole .. lanes, 'PXAT', expires)
    end
    -- further keys
  else
    call('SETRANGE', key, '0', kept)
  end
