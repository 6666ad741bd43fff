package measure

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// renumber gives the generation of the last record of a type its number from 1. Versions 1 and 2 counted from 0.
func (log *Log) renumber(kind string, version int) {
	if version > 2 {
		return
	}
	switch kind {
	case "trial":
		log.Trials[len(log.Trials)-1].Generation++
	case "histogram":
		log.Histograms[len(log.Histograms)-1].Generation++
	case "block":
		log.Blocks[len(log.Blocks)-1].Generation++
	case "proof":
		log.Proofs[len(log.Proofs)-1].Generation++
	case "matrix":
		log.Matrices[len(log.Matrices)-1].Generation++
	case "lab":
		log.Labs[len(log.Labs)-1].Generation++
	case "generation":
		log.Generations[len(log.Generations)-1].Generation++
	case "resume":
		log.Resumes[len(log.Resumes)-1].Generation++
	}
}

// oldCell holds the fields of cells that were recorded before cells had parts: a string for each kind, from which ids
// were made.
type oldCell struct {
	Network    string `json:"network"`
	Filter     string `json:"filter"`
	Tunnel     string `json:"tunnel"`
	Encryption string `json:"encryption"`
	Runtime    string `json:"runtime"`
	// the numeric parameters of network and filter that have their defaults
	Defaults map[string]string `json:"defaults"`
}

// upgrade gives a cell the parts, the stack, the label and the lab that its old fields describe.
func (o oldCell) upgrade(c *Cell) {
	param := regexp.MustCompile(`([a-z][a-z0-9-]*)=([^,()]+)`)
	for _, p := range []Part{
		{Kind: "network", ID: o.Network},
		{Kind: "filter", ID: o.Filter},
		{Kind: "tunnel", ID: o.Tunnel},
		{Kind: "encryption", ID: o.Encryption},
		{Kind: "runtime", ID: o.Runtime},
	} {
		if p.ID == "" {
			continue
		}
		p.Name, _, _ = strings.Cut(p.ID, "(")
		if found := param.FindAllStringSubmatch(p.ID, -1); found != nil {
			p.Params = map[string]string{}
			for _, one := range found {
				p.Params[one[1]] = one[2]
			}
		}
		c.Parts = append(c.Parts, p)
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		switch {
		case p.Kind == "network":
			p.Label = p.Name
		case p.Kind == "runtime" && p.Name != "netns":
			p.Label = "@" + p.Name
		case p.Kind != "runtime" && p.Name != "none":
			p.Label = "+" + p.Name
		}
	}
	// The record does not say whether a default is of the filter or the network. It is of the filter, if there is one.
	for _, name := range sortedKeys(o.Defaults) {
		i := slices.IndexFunc(c.Parts, func(p Part) bool { return p.Kind == "filter" && p.Name != "none" })
		if i < 0 {
			i = slices.IndexFunc(c.Parts, func(p Part) bool { return p.Kind == "network" })
		}
		if i < 0 {
			break
		}
		if c.Parts[i].Params == nil {
			c.Parts[i].Params = map[string]string{}
		}
		c.Parts[i].Params[name] = o.Defaults[name]
		c.Parts[i].Default = append(c.Parts[i].Default, name)
	}
	named := c.Stack != ""
	if stack, _, ok := strings.Cut(c.ID, "/"+c.Placement+"/"); ok && !named {
		c.Stack = stack
	}
	c.Label = c.Stack
	if rest, ok := strings.CutPrefix(c.Stack, "host"); ok && o.Network == "host" && c.Placement == "same-host" &&
		(rest == "" || rest[0] == '+') {
		c.Label = "loopback" + rest
		c.Parts[0].Label = "loopback"
	}
	if c.Lab == "" && c.Stack != "" {
		pairs := c.Pairs
		if c.LabPairs > 0 {
			pairs = c.LabPairs
		}
		c.Lab = c.Stack + "/" + c.Placement + "/" + strconv.Itoa(pairs)
		if c.Twin {
			c.Lab += "#2"
		}
	}
	if named {
		for i := range c.Parts {
			c.Parts[i].Label = ""
		}
	}
}

// readID gives a cell that was recorded before cells said it what its id and that of its lab say: which parameters of
// its workload they leave out, the other members of its mix, and its place. Newer records say all three.
func (c *Cell) readID() {
	if c.Unnamed == nil {
		c.Unnamed = []string{}
		for _, name := range sortedKeys(c.Params) {
			if name != "payload" && strings.Contains(c.ID, "(") && !strings.Contains(c.ID, name+"="+c.Params[name]) {
				c.Unnamed = append(c.Unnamed, name)
			}
		}
	}
	if c.Others == nil {
		id := c.ID
		if c.Twin {
			id = c.Baseline
		}
		for _, m := range c.Mix {
			if at := strings.LastIndexByte(m, '*'); at > 0 {
				m = m[:at] // without its share of the pairs
			}
			if !strings.HasSuffix(id, ":"+m) {
				c.Others = append(c.Others, m)
			}
		}
	}
	if c.Place == "" {
		lab := c.Lab
		if c.Twin {
			lab = strings.TrimSuffix(lab, "#2")
		}
		c.Place = strings.TrimPrefix(lab, c.Stack+"/")
	}
}
