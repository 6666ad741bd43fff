package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/nettoll/nettoll/internal/linux"
)

// CompareMap returns the differences between the entries of a map and the wanted ones, both as bytes.
func CompareMap(m *ebpf.Map, name string, want map[string]string) ([]linux.Difference, error) {
	var list []linux.Difference
	seen := map[string]bool{}
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	i := m.Iterate()
	for i.Next(&key, &value) {
		seen[string(key)] = true
		what := fmt.Sprintf("entry %x of map %s", key, name)
		if w, ok := want[string(key)]; !ok {
			list = append(list, linux.Difference{What: what, Want: linux.Absent, Got: linux.Present})
		} else if w != string(value) {
			list = append(list, linux.Difference{What: what, Want: fmt.Sprintf("%x", w), Got: fmt.Sprintf("%x", value)})
		}
	}
	if err := i.Err(); err != nil {
		return nil, fmt.Errorf("read map %q: %w", name, err)
	}
	for k := range want {
		if !seen[k] {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("entry %x of map %s", k, name), Want: linux.Present, Got: linux.Absent,
			})
		}
	}
	return list, nil
}
