package measure

import (
	"math"
	"strconv"
	"strings"
)

// Base units of records.
const (
	UnitSecond        = "s"
	UnitByte          = "byte"
	UnitBit           = "bit/s"
	UnitPacket        = "packet/s"
	UnitTransaction   = "transaction/s"
	UnitConnection    = "connection/s"
	UnitShare         = "1"
	UnitSegment       = "segment" // retransmits: a count, not a share
	UnitMessage       = "message" // likewise
	UnitStall         = "stall"   // likewise
	UnitOpen          = "connection"
	UnitCores         = "cores"
	UnitSecondsByte   = "s/byte"
	UnitSecondsPacket = "s/packet"
	UnitPort          = "port"
	UnitSoftirq       = "softirq/s"

	UnitSecondsTransaction = "s/transaction"
)

// Format returns a value in a base unit as people read it: scaled, with three significant digits and a space before the
// unit. A value that is not finite is "–".
//
//	Format(12.3e-6, "s") = "12.3 µs"; Format(3.41e10, "bit/s") = "34.1 Gbit/s";
//	Format(81234, "transaction/s") = "81.2 k/s";
//	Format(0.008, "1") = "0.8 %"; Format(81234, "packet/s") = "81.2 kpacket/s"
func Format(value float64, unit string) string {
	if !finite(value) {
		return "–"
	}
	switch unit {
	case UnitShare:
		return significant(value*100) + " %"
	case UnitCores, UnitSegment, UnitMessage, UnitPort, UnitStall, UnitOpen:
		return significant(value) + " " + unit
	case UnitTransaction, UnitConnection:
		unit = "/s"
	case "":
		return strings.TrimSuffix(scale(value), " ")
	case UnitSecond, UnitSecondsByte, UnitSecondsPacket, UnitSecondsTransaction:
		if math.Abs(value) >= 1 { // no prefix: "ks" is not usual
			return significant(value) + " " + unit
		}
	}
	return scale(value) + unit
}

// scale returns a number with three significant digits, a space and an SI prefix.
func scale(x float64) string {
	prefixes := []string{"p", "n", "µ", "m", "", "k", "M", "G", "T", "P"}
	const one = 4 // index of the empty prefix
	if x == 0 {
		return "0 "
	}
	e := int(math.Floor(math.Log10(math.Abs(x)) / 3))
	e = min(max(e, -one), len(prefixes)-1-one)
	s := significant(x / math.Pow(1000, float64(e)))
	if (s == "1000" || s == "-1000") && e < len(prefixes)-1-one { // 999.96 rounded up
		e++
		s = strings.TrimSuffix(s, "000")
	}
	return s + " " + prefixes[e+one]
}

// significant returns a number with three significant digits, without an exponent and without trailing zeros after a
// point.
func significant(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	s := strconv.FormatFloat(x, 'f', min(max(decimals, 0), 12), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}
