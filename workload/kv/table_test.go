package kv

import (
	"fmt"
	"testing"
)

// A table finds exactly what was added, however much that is.
func TestTable(t *testing.T) {
	var tab table
	if tab.find([]byte("a")) != nil {
		t.Error("an empty table has a key")
	}
	const keys = 20_000
	buf := []byte{}
	for i := range keys {
		buf = fmt.Appendf(buf[:0], "%d", i) // the table keeps a copy of the key
		if tab.find(buf) != nil {
			t.Fatalf("%s is there", buf)
		}
		tab.add(buf).bulk = fmt.Appendf(nil, "value of %d", i)
		if 2*tab.used > len(tab.slots) {
			t.Fatalf("%d of %d slots are used", tab.used, len(tab.slots))
		}
	}
	for i := range keys {
		s := tab.find(fmt.Appendf(nil, "%d", i))
		if s == nil || string(s.bulk) != fmt.Sprintf("value of %d", i) {
			t.Fatalf("%d: %+v", i, s)
		}
	}
	if tab.add(nil); tab.find(nil) == nil || tab.find([]byte{0}) != nil {
		t.Error("a key of no bytes is one as others are")
	}
}
