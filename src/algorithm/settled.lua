-- Units that are held until it is known what was spent: what `settled` makes of the script of an
-- algorithm. `settled.rs` says the same in Rust.
--
-- A cost has room if the algorithm has room for it together with all that is held. What is held is
-- kept as two generations, of which the later one takes holds. When one has ended, what it still
-- holds counts as spent, as of its end.
--
-- The composer replaces `rule('judge')` by that part of the algorithm's script, and so on;
-- `generation()` by the part of that name, which opens the generation that takes holds now;
-- `forget_what_was_worked_out()` by lines that clear the names of the algorithm, but for those of
-- its state; and `units()` by one of the parts below whose names end with `units`.
--
-- Parameters  those of the algorithm, then
--             held_at_most       how long a generation lasts after its last hold, at least
--             generation_time    how long a generation lasts in all
--             matters_for        the retention: how long units matter after they were charged
-- State       that of the algorithm, then, of the earlier generation and of the later one,
--             start              when it began, by which receipts name it; 0 if none does
--             end                when what it still holds counts as spent
--             held               the units that it holds
-- Reply       what the algorithm replies, as if all that is held had been charged now; then
--             generation_start   that of the generation in which the cost is held; 0 if it is not
-- Settlement  settled_start      the generation_start of the admission
-- Renewal     settled_start      the generation of the places that are renewed; 0 if they are lost
--             renewed            replied: how many are held from now on, in generation_start
--- judge
if m.later_start > now + m.generation_time then
  -- The clock has stepped back: generations begin now, and no receipt names them any more.
  m.earlier_end = math.max(m.earlier_end - math.max(m.earlier_start - now, 0), 0)
  m.later_end = math.max(m.later_end - (m.later_start - now), 0)
  m.earlier_start, m.later_start, repaired = 0, now, true
end
repeat
  -- First once for each generation that has ended, in the order of their ends.
  local cost, now, state, has_ended = cost, now, m.rewritten or state, false
  if m.later_held > 0 and m.later_end <= now
    or m.earlier_held > 0 and m.earlier_end <= now then
    has_ended = true
    if m.later_held > 0 and m.later_end <= now
      and not (m.earlier_held > 0 and m.earlier_end <= m.later_end) then
      cost, now, m.later_held = m.later_held, m.later_end, 0
    else
      cost, now, m.earlier_held = m.earlier_held, m.earlier_end, 0
    end
  else
    units()
  end
  rule('judge')
  if has_ended then
    do
      rule('debit')
      rule('charge')
    end
    rule('expire')
    forget_what_was_worked_out()
    repaired, dirty, ended = true, true, true
  end
until not has_ended
m.fits = m.fits or cost == 0
--- held units
cost = cost + m.earlier_held + m.later_held
--- debited units
-- The cost itself.
--- settled units
if m.settled_start > 0 and m.settled_start == m.earlier_start and m.earlier_held > 0 then
  m.earlier_held = m.earlier_held > held and m.earlier_held - held or 0
elseif m.settled_start > 0 and m.settled_start == m.later_start and m.later_held > 0 then
  m.later_held = m.later_held > held and m.later_held - held or 0
else
  -- The hold is gone: only what was spent beyond it is charged.
  cost = math.max(cost - held, 0)
end
m.charged = cost
--- renewed units
cost, m.renewed = 0, 0
if m.settled_start > 0 and m.settled_start == m.earlier_start then
  m.renewed = math.min(m.earlier_held, held)
  m.earlier_held = m.earlier_held - m.renewed
elseif m.settled_start > 0 and m.settled_start == m.later_start then
  m.renewed = math.min(m.later_held, held)
  m.later_held = m.later_held - m.renewed
end
--- generation
m.hold_at = now
if m.later_start > now then m.hold_at = m.later_start end
if m.hold_at + m.held_at_most >= m.later_end then
  if m.earlier_held > 0 and m.later_held > 0 then
    -- Another plan holds for longer: both generations still run.
    m.later_end = m.hold_at + m.held_at_most
  else
    if m.later_held > 0 then
      m.earlier_start, m.earlier_end = m.later_start, m.later_end
      m.earlier_held = m.later_held
    end
    -- No two generations begin at the same instant.
    m.later_start = math.max(m.hold_at, m.later_start + 1)
    m.later_end = m.hold_at + m.generation_time
    m.later_held = 0
  end
end
--- charge
generation()
m.later_held = m.later_held + cost
m.generation_start = m.later_start
--- renew
-- Lost places are held again as far as there is room: no place of others is taken.
rule('capacity')
m.renewed_before = m.renewed
m.renewed = math.max(m.renewed, m.capacity - m.earlier_held - m.later_held)
if m.renewed > wanted then m.renewed = wanted end
m.generation_start = 0
if m.renewed > 0 then
  generation()
  m.later_held = m.later_held + m.renewed
  m.generation_start = m.later_start
end
if m.renewed ~= m.renewed_before or m.renewed > 0 and m.later_start ~= m.settled_start then
  dirty = true
end
--- debit
rule('debit')
rule('charge')
--- settle
if m.charged > 0 then
  local cost = m.charged
  rule('debit')
  rule('charge')
end
--- refund
rule('refund')
--- expire
rule('expire')
if m.earlier_held > 0 and m.earlier_end > m.expires_at then m.expires_at = m.earlier_end end
if m.later_held > 0 and m.later_end > m.expires_at then m.expires_at = m.later_end end
if m.earlier_held + m.later_held > 0 then m.expires_at = m.expires_at + m.matters_for end
--- reply
m.generation_start = m.generation_start or 0
do
  local held = m.earlier_held + m.later_held
  rule('reply')
  rule('beside')
end
