package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/stack"
)

// between begins docs/between.md.
const between = `# Between hosts: tunnels and encryptions

This page is made by ` + "`make docs`" + ` from what tunnels and encryptions say of themselves. In every run the
longest frame of a tap on the underlay must be exactly as long as that (docs/method.md, *What passes between hosts*).

## What each adds

*MTU* is that of the containers on an underlay of %d bytes. *Blocks*: a packet and so many bytes of a trailer are padded
to a multiple of the block, without the header in front if that says so; the largest packet needs no padding.

| stack | outer packets | on the wire | bytes | blocks | MTU | source |
| --- | --- | --- | ---: | --- | ---: | --- |
`

// BetweenDocument returns docs/between.md, made from the catalogue: the overhead of each tunnel and encryption, and the
// MTU that each composition leaves.
func BetweenDocument() ([]byte, error) {
	const underlay = 1500 // bytes
	kinds := catalogue.New().Kinds
	var text strings.Builder
	fmt.Fprintf(&text, between, underlay)
	for _, kind := range []string{"tunnel", "encryption"} {
		list, err := variants(kinds, kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			lab, err := network.Compose(network.NewLab(2, underlay), s)
			if err != nil {
				return nil, err
			}
			of, name := lab.Spans[1], s[len(s)-1].Part.Name
			var wire []string
			for _, w := range of.Wire {
				wire = append(wire, w.String())
			}
			blocks := ""
			if o := of.Overhead; o.Padding > 0 {
				blocks = fmt.Sprintf("%d, trailer %d", o.Padding, o.Trailer)
				if o.Header > 0 {
					blocks += fmt.Sprintf(", without %d in front", o.Header)
				}
			}
			for _, param := range []string{"cipher", "inner"} {
				if value := s[len(s)-1].Params[param]; value != "" {
					name += ", " + value
				}
			}
			if len(s) > 1 {
				name += ", " + s[1].Params["mode"] + " mode below " + s[0].Part.Name
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %d | %s | %d | %s |\n", name, cmp.Or(of.Outer, "no IP"),
				strings.Join(wire, ", "), of.Overhead.Bytes, blocks, lab.MTU, of.Overhead.Source)
		}
	}
	err := compositions(&text, kinds, underlay)
	return []byte(WrapDocument(text.String())), err
}

// roomy is an MTU in bytes that leaves enough, whatever is added.
const roomy = 9000

func unfit(err error) bool {
	_, ok := errors.AsType[*network.UnfitError](err)
	return ok
}

// variants are the choices of a kind, a part each, for which its packets differ. One that needs a tunnel on it has one.
func variants(kinds stack.Kinds, kind string) (list []stack.Stack, err error) {
	of, err := kinds.Find(kind)
	if err != nil {
		return nil, err
	}
	for _, p := range of.Parts() {
		given := []map[string]string{{}}
		for _, param := range p.Params {
			if !slices.Contains([]string{"outer", "cipher", "inner", "mode"}, param.Name) {
				continue
			}
			var more []map[string]string
			for _, g := range given {
				for _, value := range param.Values {
					one := maps.Clone(g)
					one[param.Name] = value
					more = append(more, one)
				}
			}
			given = more
		}
		for _, g := range given {
			c, err := kinds.Choose(kind, p.Name, g)
			if err != nil {
				return nil, err
			}
			s := stack.Stack{c}
			if _, err := network.Compose(network.NewLab(2, roomy), s); unfit(err) {
				below, err := kinds.Find("tunnel")
				if err != nil {
					return nil, err
				}
				first := below.Parts()[0].Name
				on, err := kinds.Choose("tunnel", first, map[string]string{"outer": g["outer"]})
				if err != nil {
					return nil, err
				}
				s = stack.Stack{on, c}
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// compositions appends the MTU of containers with each tunnel on each encryption, all with their defaults.
func compositions(text *strings.Builder, kinds stack.Kinds, underlay int) error {
	names := func(kind string) ([]string, error) {
		of, err := kinds.Find(kind)
		if err != nil {
			return nil, err
		}
		list := []string{stack.None}
		for _, p := range of.Parts() {
			list = append(list, p.Name)
		}
		return list, nil
	}
	tunnels, err := names("tunnel")
	if err != nil {
		return err
	}
	encryptions, err := names("encryption")
	if err != nil {
		return err
	}
	fmt.Fprintf(text, "\n## Each tunnel on each encryption\n\nThe MTU of containers on an underlay of %d bytes, all with "+
		"their defaults.\n\n| tunnel | %s |\n| --- |%s\n", underlay, strings.Join(encryptions, " | "),
		strings.Repeat(" ---: |", len(encryptions)))
	for _, t := range tunnels {
		row := []string{t}
		for _, e := range encryptions {
			var s stack.Stack
			for _, chosen := range [][2]string{{"tunnel", t}, {"encryption", e}} {
				if chosen[1] == stack.None {
					continue
				}
				c, err := kinds.Choose(chosen[0], chosen[1], nil)
				if err != nil {
					return err
				}
				s = append(s, c)
			}
			lab, err := network.Compose(network.NewLab(2, underlay), s)
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprint(lab.MTU))
		}
		fmt.Fprintf(text, "| %s |\n", strings.Join(row, " | "))
	}
	return nil
}
