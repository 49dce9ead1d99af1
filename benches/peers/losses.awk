# The rows of all tables in which tollgate is the slower or the larger one, and why: awk -f losses.awk reasons.tsv tables
#
# A reason stands after a tab; before it, a regular expression for "section: part | row". The first one that fits is taken.
FNR == NR {
    if (split($0, fields, "\t") == 2) {
        pattern[++reasons] = fields[1]
        reason[reasons] = fields[2]
    }
    next
}
FNR == 1 {
    print "\n## Where tollgate loses, and why\n"
    print "Each row in which a number is above 1, as in the tables below."
}
/^## / { section = substr($0, 4); part = ""; next }
/^### / { part = ": " substr($0, 5); next }
/^\|---/ { head = before; listed = 0; next }
/^\|/ && emphasised() {
    if (!listed++) {
        print "\n**" section part "**\n\n" head " why |"
        gsub(/[^|]+/, "---", head)
        print head "---|"
    }
    print $0 " " why(section part " " $0) " |"
    losses++
}
{ before = $0 }
END { if (!losses) print "\nNone." }

# A number in bold, or, in tables of ratios that have none, a ratio above 1 in the last two cells.
function emphasised(   cells, count) {
    if ($0 ~ /\*\*[0-9]/) return 1
    if (section !~ /^Every algorithm/) return 0
    count = split($0, cells, "|")
    return above(cells[count - 1]) || (section !~ /memory/ && above(cells[count - 2]))
}

function above(cell) {
    return cell ~ /^ *[0-9.]+ *$/ && cell + 0 > 1.005
}

function why(text,   at) {
    for (at = 1; at <= reasons; at++)
        if (text ~ pattern[at]) return reason[at]
    return "not known"
}
