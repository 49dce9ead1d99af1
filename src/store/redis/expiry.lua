  -- Kept at most a sixty-fourth longer than it matters, so that not every charge moves the expiry.
  if over > kept_until or mends or moves then
    moves, kept_until = true, over
    if over > now then kept_until = over + (over - now) / 64 end
    kept_until = math.ceil(kept_until)
  end
