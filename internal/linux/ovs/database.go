package ovs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Datapath types, as ovs-vswitchd.conf.db(5) has them.
const (
	Userspace = "netdev"
	Kernel    = "system"
)

// A Config is all that the database of an instance is to hold: one bridge.
type Config struct {
	// Bridge is its name, and that of its own link on the host.
	Bridge string
	// MAC is the address of that link.
	MAC string
	// MTU in bytes of that link.
	MTU int
	// Datapath is Userspace or Kernel.
	Datapath string
	// Ports are names of links. The first becomes port 1 of the bridge in OpenFlow, and so on.
	Ports []string
}

// A Port is what became of a port.
type Port struct {
	Name string
	// Number is that in OpenFlow, not above 0 where the link could not be opened, and 65534 for the bridge's own.
	Number int
	// Error is what the daemon says of it.
	Error string
}

const database = "Open_vSwitch"

type object = map[string]any

// named refers to a row of the same transaction.
func named(name string) []any { return []any{"named-uuid", name} }

// pairs is a map as the database has them.
func pairs(m map[string]string) []any {
	list := [][]any{}
	for k, v := range m {
		list = append(list, []any{k, v})
	}
	return []any{"map", list}
}

// transact does some operations and wants all of them to succeed (RFC 7047, section 4.1.3).
func (r *rpc) transact(operations []any) ([]json.RawMessage, error) {
	var results []json.RawMessage
	if err := r.call("transact", append([]any{database}, operations...), &results); err != nil {
		return nil, err
	}
	for _, result := range results {
		var failed struct{ Error, Details string }
		if json.Unmarshal(result, &failed) == nil && failed.Error != "" {
			return nil, fmt.Errorf("transact: %s: %s", failed.Error, failed.Details)
		}
	}
	return results, nil
}

// Configure fills an empty database. The daemon need not run yet.
func (i Instance) Configure(c Config) error {
	r, err := dialRPC(i.Database())
	if err != nil {
		return fmt.Errorf("configure Open vSwitch: %w", err)
	}
	defer r.close()
	ports := []any{named("port0")}
	operations := []any{
		object{"op": "insert", "table": "Interface", "uuid-name": "link0", "row": object{
			"name": c.Bridge, "type": "internal", "mtu_request": c.MTU,
		}},
		object{"op": "insert", "table": "Port", "uuid-name": "port0", "row": object{
			"name": c.Bridge, "interfaces": named("link0"),
		}},
	}
	for n, name := range c.Ports {
		link, port := fmt.Sprintf("link%d", n+1), fmt.Sprintf("port%d", n+1)
		ports = append(ports, named(port))
		operations = append(operations,
			object{
				"op": "insert", "table": "Interface", "uuid-name": link,
				"row": object{"name": name, "ofport_request": n + 1},
			},
			object{"op": "insert", "table": "Port", "uuid-name": port, "row": object{"name": name, "interfaces": named(link)}},
		)
	}
	other := map[string]string{}
	for _, s := range Settings(c.Datapath) {
		other[s.Name] = s.Value
	}
	operations = append(operations,
		object{"op": "insert", "table": "Bridge", "uuid-name": "bridge", "row": object{
			"name": c.Bridge, "datapath_type": c.Datapath, "ports": []any{"set", ports},
			"fail_mode":    "secure", // no flows but ours
			"other_config": pairs(map[string]string{"hwaddr": c.MAC, "disable-in-band": "true"}),
		}},
		object{"op": "insert", "table": database, "row": object{
			"bridges": named("bridge"), "next_cfg": 1, "other_config": pairs(other),
		}},
	)
	if _, err := r.transact(operations); err != nil {
		return fmt.Errorf("configure Open vSwitch: %w", err)
	}
	return nil
}

// Configured waits until the daemon has done what Configure asked for. gone is closed when the daemon is.
func (i Instance) Configured(gone <-chan struct{}) error {
	r, err := dialRPC(i.Database())
	if err != nil {
		return fmt.Errorf("wait for %s: %w", Daemon, err)
	}
	defer r.close()
	for deadline := time.Now().Add(patience); ; {
		results, err := r.transact([]any{
			object{"op": "select", "table": database, "where": []any{}, "columns": []string{"cur_cfg"}},
		})
		if err != nil {
			return fmt.Errorf("wait for %s: %w", Daemon, err)
		}
		var selected struct {
			Rows []struct {
				Current int `json:"cur_cfg"`
			}
		}
		if err := json.Unmarshal(results[0], &selected); err != nil {
			return fmt.Errorf("wait for %s: %w", Daemon, err)
		}
		if len(selected.Rows) == 1 && selected.Rows[0].Current > 0 {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("wait for %s: it has ended", Daemon)
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: it has not configured its bridge within %v", Daemon, patience)
		}
	}
}

// optional is a column that holds one value or none: a value, or an empty set (RFC 7047, section 5.1).
type optional[T any] struct{ value T }

// UnmarshalJSON takes an empty set for the zero value.
func (o *optional[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return nil
	}
	return json.Unmarshal(data, &o.value)
}

// Ports returns the ports of the database, by name.
func (i Instance) Ports() ([]Port, error) {
	r, err := dialRPC(i.Database())
	if err != nil {
		return nil, fmt.Errorf("read the ports of Open vSwitch: %w", err)
	}
	defer r.close()
	results, err := r.transact([]any{
		object{"op": "select", "table": "Interface", "where": []any{}, "columns": []string{"name", "ofport", "error"}},
	})
	if err != nil {
		return nil, fmt.Errorf("read the ports of Open vSwitch: %w", err)
	}
	var selected struct {
		Rows []struct {
			Name  string
			Port  optional[int] `json:"ofport"`
			Error optional[string]
		}
	}
	if len(results) == 0 {
		return nil, errors.New("read the ports of Open vSwitch: no answer")
	}
	if err := json.Unmarshal(results[0], &selected); err != nil {
		return nil, fmt.Errorf("read the ports of Open vSwitch: %w", err)
	}
	var ports []Port
	for _, row := range selected.Rows {
		ports = append(ports, Port{row.Name, row.Port.value, row.Error.value})
	}
	slices.SortFunc(ports, func(a, b Port) int { return a.Number - b.Number })
	return ports, nil
}
