package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// conflists is the directory of the configurations of CNI, as its documentation has it.
const conflists = "etc/cni/net.d"

// cni returns which plugins of CNI are there, and what the machine's own conflists lack.
func (m *machine) cni() []Finding {
	if len(m.Plugins) == 0 {
		return nil
	}
	var there, absent, help []string
	for _, name := range slices.Sorted(maps.Keys(m.Plugins)) {
		if m.plugin(name) {
			there = append(there, name)
			continue
		}
		absent = append(absent, name)
		if !slices.Contains(help, m.Plugins[name]) {
			help = append(help, m.Plugins[name])
		}
	}
	value := orNone(strings.Join(there, " "))
	if len(absent) > 0 {
		value += "; missing in " + m.folders() + ": " + strings.Join(absent, ", ") + hint(strings.Join(help, "; "))
	}
	return []Finding{found("cni_plugins", value), m.conflists()}
}

func (m *machine) folders() string { return strings.Join(m.PluginFolders, ":") }

// plugin reports whether a plugin is in one of the folders.
func (m *machine) plugin(name string) bool {
	return slices.ContainsFunc(m.PluginFolders, func(folder string) bool {
		info, err := fs.Stat(m.root, path.Join(strings.TrimPrefix(folder, "/"), name))
		return err == nil && info.Mode().IsRegular()
	})
}

// conflists names the conflists of the machine, and those that cannot be used.
func (m *machine) conflists() Finding {
	const name = "cni_conflists"
	files, err := fs.Glob(m.root, conflists+"/*.conflist")
	if err != nil || len(files) == 0 {
		return found(name, "none in /"+conflists)
	}
	var names, wrong []string
	for _, file := range files {
		names = append(names, path.Base(file))
		if why := m.lacks(file); why != "" {
			wrong = append(wrong, path.Base(file)+" "+why)
		}
	}
	f := found(name, strings.Join(names, ", ")+", in /"+conflists)
	f.Advice = strings.Join(wrong, "; ")
	return f
}

// lacks says why a conflist cannot be used; "" if it can be.
func (m *machine) lacks(file string) string {
	type plugin struct {
		Type string `json:"type"`
		IPAM struct {
			Type      string `json:"type"`
			Addresses any    `json:"addresses"`
		} `json:"ipam"`
	}
	text, err := fs.ReadFile(m.root, file)
	if err != nil {
		return "cannot be read"
	}
	var list struct {
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Sprintf("is not valid JSON: %v", err)
	}
	for i, p := range list.Plugins {
		if i == 0 && p.IPAM.Type == "static" { // the first plugin makes the link, and its IPAM gives the addresses
			return unusable(p.IPAM.Addresses)
		}
		for _, name := range []string{p.Type, p.IPAM.Type} {
			if name != "" && !m.plugin(name) {
				return fmt.Sprintf("names plugin %q, which is missing in %s: %s", name, m.folders(),
					cmp.Or(m.Plugins[name], "put it into one of these folders"))
			}
		}
	}
	return ""
}

// unusable says why IPAM "static" with these addresses cannot give them to containers.
func unusable(addresses any) string {
	if list, _ := addresses.([]any); len(list) == 0 {
		return `has IPAM "static" without addresses: use IPAM "host-local" with a range`
	}
	return `has IPAM "static", which gives every container the same addresses: use IPAM "host-local" with a range`
}
