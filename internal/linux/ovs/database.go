package ovs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Datapath types, as in ovs-vswitchd.conf.db(5).
const (
	Userspace = "netdev"
	Kernel    = "system"
)

// A Config is the complete content of the database of an instance.
type Config struct {
	Bridges []Bridge
	// Settings are the settings of the daemon that differ from its defaults.
	Settings []Setting
}

// A Bridge is one bridge of a [Config].
type Bridge struct {
	// Name is the name of the bridge and of its own link on the host.
	Name string
	// MAC is the address of that link; "" for any.
	MAC string
	// MTU of that link, in bytes.
	MTU int
	// Datapath is Userspace or Kernel.
	Datapath string
	// Ports are the other ports. The first becomes port 1 of the bridge in OpenFlow, and so on.
	Ports []PortConfig
}

// A PortConfig is a wanted port.
type PortConfig struct {
	// Name is the name of the link, if Type is "".
	Name string
	// Type is "", or the type of a tunnel: "geneve" (ovs-vswitchd.conf.db(5), Interface, type), with its options.
	Type    string
	Options map[string]string
}

// A Port is the state of a port.
type Port struct {
	Name string
	// Number is its number in OpenFlow. It is 0 or less if the link could not be opened, and 65534 for the bridge's
	// own.
	Number int
	// Error is the daemon's error about it.
	Error string
	// Type and Options are as in [PortConfig].
	Type    string
	Options map[string]string
}

const database = "Open_vSwitch"

type object = map[string]any

// named refers to a row of the same transaction.
func named(name string) []any { return []any{"named-uuid", name} }

// pairs returns a map in the database's format.
func pairs(m map[string]string) []any {
	list := [][]any{}
	for k, v := range m {
		list = append(list, []any{k, v})
	}
	return []any{"map", list}
}

// unpair reads a map.
func unpair(m []json.RawMessage) (map[string]string, error) {
	if len(m) != 2 {
		return nil, fmt.Errorf("a map of %d parts", len(m))
	}
	var list [][2]string
	if err := json.Unmarshal(m[1], &list); err != nil {
		return nil, err
	}
	all := make(map[string]string, len(list))
	for _, pair := range list {
		all[pair[0]] = pair[1]
	}
	return all, nil
}

// transact performs some operations, and returns an error unless all of them succeed (RFC 7047, section 4.1.3).
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
	var operations, bridges []any
	for n, b := range c.Bridges {
		bridge := fmt.Sprintf("bridge%d", n)
		bridges = append(bridges, named(bridge))
		operations = append(operations, b.rows(bridge)...)
	}
	other := map[string]string{}
	for _, s := range c.Settings {
		other[s.Name] = s.Value
	}
	operations = append(operations, object{"op": "insert", "table": database, "row": object{
		"bridges": []any{"set", bridges}, "next_cfg": 1, "other_config": pairs(other),
	}})
	if _, err := r.transact(operations); err != nil {
		return fmt.Errorf("configure Open vSwitch: %w", err)
	}
	return nil
}

// rows returns the operations that insert a bridge, with its name in the transaction, and its ports.
func (b Bridge) rows(id string) []any {
	var operations, ports []any
	add := func(n int, link object) {
		to, port := fmt.Sprintf("%slink%d", id, n), fmt.Sprintf("%sport%d", id, n)
		ports = append(ports, named(port))
		operations = append(operations,
			object{"op": "insert", "table": "Interface", "uuid-name": to, "row": link},
			object{"op": "insert", "table": "Port", "uuid-name": port, "row": object{
				"name": link["name"], "interfaces": named(to),
			}},
		)
	}
	add(0, object{"name": b.Name, "type": "internal", "mtu_request": b.MTU})
	for n, p := range b.Ports {
		add(n+1, object{"name": p.Name, "type": p.Type, "options": pairs(p.Options), "ofport_request": n + 1})
	}
	other := map[string]string{"disable-in-band": "true"}
	if b.MAC != "" {
		other["hwaddr"] = b.MAC
	}
	return append(operations, object{"op": "insert", "table": "Bridge", "uuid-name": id, "row": object{
		"name": b.Name, "datapath_type": b.Datapath, "ports": []any{"set", ports},
		"fail_mode":    "secure", // no flows except ours
		"other_config": pairs(other),
	}})
}

// Configured waits until the daemon has applied the configuration. gone is closed when the daemon has ended.
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

// optional is a column with at most one value: a value, or an empty set (RFC 7047, section 5.1).
type optional[T any] struct{ value T }

// UnmarshalJSON reads an empty set as the zero value.
func (o *optional[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return nil
	}
	return json.Unmarshal(data, &o.value)
}

// A State is what the database of an instance says.
type State struct {
	// Ports are all ports, in the order of their numbers.
	Ports []Port
	// Copies name what copies packets, or reports of them, to somebody else. Nettoll configures nothing of the kind.
	Copies []string
}

// copiers are the tables of the database whose rows copy packets to somebody else, or report them, with the column that
// tells their rows apart (ovs-vswitchd.conf.db(5)).
func copiers() [][2]string {
	return [][2]string{{"Mirror", "name"}, {"NetFlow", "targets"}, {"sFlow", "targets"}, {"IPFIX", "targets"}}
}

// State asks the database once for the ports and for what copies packets.
func (i Instance) State() (s State, err error) {
	r, err := dialRPC(i.Database())
	if err != nil {
		return s, fmt.Errorf("read the state of Open vSwitch: %w", err)
	}
	defer r.close()
	all := []any{object{"op": "select", "table": "Interface", "where": []any{}, "columns": []string{
		"name", "ofport", "error", "type", "options",
	}}}
	for _, c := range copiers() {
		all = append(all, object{"op": "select", "table": c[0], "where": []any{}, "columns": c[1:]})
	}
	results, err := r.transact(all)
	if err == nil && len(results) != len(all) {
		err = fmt.Errorf("%d answers (want %d)", len(results), len(all))
	}
	if err == nil {
		s.Ports, err = readPorts(results[0])
	}
	for n, c := range copiers() {
		if err != nil {
			break
		}
		var selected struct{ Rows []map[string]json.RawMessage }
		err = json.Unmarshal(results[n+1], &selected)
		for _, row := range selected.Rows {
			s.Copies = append(s.Copies, fmt.Sprintf("%s %s", c[0], row[c[1]]))
		}
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state of Open vSwitch: %w", err)
	}
	return s, nil
}

// readPorts reads the rows of the table Interface.
func readPorts(result []byte) ([]Port, error) {
	var selected struct {
		Rows []struct {
			Name  string
			Port  optional[int] `json:"ofport"`
			Error optional[string]
			Type  string
			// Options is "map" and a list of pairs (RFC 7047, section 5.1).
			Options []json.RawMessage
		}
	}
	if err := json.Unmarshal(result, &selected); err != nil {
		return nil, err
	}
	var ports []Port
	for _, row := range selected.Rows {
		options, err := unpair(row.Options)
		if err != nil {
			return nil, err
		}
		ports = append(ports, Port{row.Name, row.Port.value, row.Error.value, row.Type, options})
	}
	slices.SortFunc(ports, func(a, b Port) int { return a.Number - b.Number })
	return ports, nil
}
