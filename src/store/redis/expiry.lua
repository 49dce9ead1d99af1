  -- Kept at most a sixty-fourth longer than it matters, so that not every charge moves the expiry.
  if over > kept_until or mends or moves or at == '' then
    moves, kept_until = true, over
    if over > now then kept_until = math.floor(over + (over - now) / 64) end
  end
