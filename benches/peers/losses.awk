# Gathers rows of all tables: awk -f losses.awk -v what=losses reasons.tsv tables
#
# losses: those in which tollgate is the slower or the larger one, each with a number for why.
# wrong: those in which a limiter did not keep what it promises.
#
# A reason stands after a tab; before it, a regular expression for "section: part | row". The first
# one that fits is taken.
FNR == NR {
    if (split($0, fields, "\t") == 2) {
        pattern[++reasons] = fields[1]
        reason[reasons] = fields[2]
    }
    next
}
FNR == 1 && what == "losses" {
    print "\n## Where tollgate loses, and why\n"
    print "Each row in which a number is above 1, as in the tables below; the numbers of the reasons are below them. Where a"
    print "range begins below 1, it may be either."
}
FNR == 1 && what == "wrong" {
    print "\n## Which limiters are wrong\n"
    print "Each row in which a limiter did not keep what it promises, as in the tables below.\n"
    print "| history | limiter | promised | seen | |\n|---|---|---|---|---|"
}
/^## / { section = substr($0, 4); part = ""; next }
/^### / { part = ": " substr($0, 5); next }
/^\|---/ { head = before; listed = 0; next }
what == "losses" && /^\|/ && emphasised() {
    if (!listed++) {
        print "\n**" section part "**\n\n" head " why |"
        gsub(/[^|]+/, "---", head)
        print head "---|"
    }
    print $0 " " why(section part " " $0) " |"
    found++
}
what == "wrong" && /\*\*wrong\*\*/ {
    print "| " substr(part, 3) " " $0
    found++
}
{ before = $0 }
END {
    if (!found) print "\nNone."
    if (used) print ""
    for (at = 1; at <= used; at++) print at ". " told[at]
}

# A number in bold, or, in a table of ratios that has none, a ratio above 1 in the last cell.
function emphasised(   cells, count) {
    if ($0 ~ /\*\*[0-9]/) return 1
    if (section !~ /^Every algorithm.s memory/) return 0
    count = split($0, cells, "|")
    return above(cells[count - 1])
}

function above(cell) {
    return cell ~ /^ *[0-9.]+ *$/ && cell + 0 > 1.005
}

# The number of the reason; they are numbered as they come.
function why(text,   at) {
    for (at = 1; at <= reasons; at++)
        if (text ~ pattern[at]) {
            if (!(reason[at] in number)) {
                told[++used] = reason[at]
                number[reason[at]] = used
            }
            return number[reason[at]]
        }
    return "not known"
}
