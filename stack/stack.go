package stack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Kind is a kind of parts, such as networks, filters or runtimes; each stack has one part of each kind. A kind that
// judges whole stacks also implements [Refuser] or [Enforcer].
type Kind interface {
	// Describe returns the description of the kind.
	Describe() Description
	// Parts lists its parts in the order of help, without [None].
	Parts() []Part
}

// A Description describes a kind.
type Description struct {
	// Name is its key in experiment files: "network".
	Name string
	// Plural is its plural: "networks".
	Plural string
	// Summary is a sentence that says what its parts do: "Joins containers to their host."
	Summary string
	// Note applies to all of its parts and follows the summary of each; "" for none.
	Note string
	// Sign stands before a part of this kind in ids: "+" or "@". The first kind stands at the beginning, without its
	// sign.
	Sign string
	// Default is the part of a stack that names no part of this kind: None, or one of Parts. If it is "", a stack must
	// name one.
	Default string
}

// None stands for no part of a kind, if the kind allows that.
const None = "none"

// A Part is a part in the list of its kind.
type Part struct {
	part.Description
	// Value is the part itself, of the interface that its kind defines. It is nil for [None].
	Value any
}

// A Refuser is a kind whose parts do not fit every stack.
type Refuser interface {
	// Refuse returns why labs with this stack and number of hosts are left out because of its part of this kind. It is
	// "" if they are not.
	Refuse(s Stack, hosts int) string
}

// An Enforcer is a kind whose parts protect something.
type Enforcer interface {
	// Enforced describes where the stack's part of this kind is and what it claims: the end of "enforced …". It is ""
	// if the stack has none.
	Enforced(s Stack) string
}

// A Claimer is a kind whose parts say what they protect against.
type Claimer interface {
	// Claims returns what the stack's part of this kind says about attacks in labs of so many hosts.
	Claims(s Stack, hosts int) threat.Claims
}

// A Choice is a part of one kind with all of its parameters.
type Choice struct {
	Kind   Kind
	Part   Part
	Params part.Params
}

// ID writes the choice with the parameters that do not have their defaults: "nftables(rules=1000)".
func (c Choice) ID() string { return c.Part.Params.Short(c.Part.Name, c.Params) }

// Standard reports whether a stack that names no part of the kind has this choice.
func (c Choice) Standard() bool { return c.ID() == c.Kind.Describe().Default }

// MarshalJSON writes the choice as an object: {"kind": "filter", "name": "nftables", "params": {"rules": "0"}}.
func (c Choice) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind   string      `json:"kind"`
		Name   string      `json:"name"`
		Params part.Params `json:"params,omitempty"`
	}{c.Kind.Describe().Name, c.Part.Name, c.Params})
}

// UnmarshalJSON reads what MarshalJSON writes. Only [Kinds.Complete] knows which kind and part are meant.
func (c *Choice) UnmarshalJSON(b []byte) error {
	var read struct {
		Kind   string      `json:"kind"`
		Name   string      `json:"name"`
		Params part.Params `json:"params"`
	}
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	*c = Choice{Kind: named(read.Kind), Part: Part{Description: part.Description{Name: read.Name}}, Params: read.Params}
	return nil
}

// named is a kind with a known name and nothing else.
type named string

func (n named) Describe() Description { return Description{Name: string(n), Plural: string(n) + "s"} }
func (named) Parts() []Part           { return nil }

// Equal reports whether two choices are the same.
func (c Choice) Equal(o Choice) bool {
	return c.Kind.Describe().Name == o.Kind.Describe().Name && c.Part.Name == o.Part.Name && part.Equal(c.Params, o.Params)
}

// A Stack is a list of choices, at most one of each kind. [Kinds.Complete] adds the defaults and puts them in order.
type Stack []Choice

// Of returns the stack's choice of a kind, by the kind's name. The bool is false if there is none.
func (s Stack) Of(kind string) (Choice, bool) {
	i := slices.IndexFunc(s, func(c Choice) bool { return c.Kind.Describe().Name == kind })
	if i < 0 {
		return Choice{}, false
	}
	return s[i], true
}

// With returns the stack with this choice instead of the previous one of its kind.
func (s Stack) With(choice Choice) Stack {
	kind := choice.Kind.Describe().Name
	i := slices.IndexFunc(s, func(c Choice) bool { return c.Kind.Describe().Name == kind })
	if i < 0 {
		return append(slices.Clip(s), choice)
	}
	with := slices.Clone(s)
	with[i] = choice
	return with
}

// Equal reports whether two complete stacks have the same choices.
func (s Stack) Equal(o Stack) bool { return slices.EqualFunc(s, o, Choice.Equal) }

// PartOf returns the stack's part that is a T, such as a network.Network, and its parameters. The bool is false if the
// stack has none.
func PartOf[T any](s Stack) (T, part.Params, bool) {
	for _, c := range s {
		if v, ok := c.Part.Value.(T); ok {
			return v, c.Params, true
		}
	}
	var none T
	return none, nil, false
}

// Cluster is the parameter of a part that names the cluster on which a stack is, where there are several.
const Cluster = "cluster"

// OnCluster returns the name of the cluster on which a stack is; "" if it names none.
func OnCluster(s Stack) string {
	for _, c := range s {
		if name := c.Params[Cluster]; name != "" {
			return name
		}
	}
	return ""
}

// Kinds are all kinds that a stack has a choice of, in the order of ids and sentences.
type Kinds []Kind

// PartsOf returns all parts that are a T, such as a network.Network, in the order of help.
func PartsOf[T any](k Kinds) []T {
	var all []T
	for _, kind := range k {
		for _, p := range kind.Parts() {
			if v, ok := p.Value.(T); ok {
				all = append(all, v)
			}
		}
	}
	return all
}

// Find returns the kind with that name.
func (k Kinds) Find(name string) (Kind, error) {
	return part.Find("kind", name, k, func(kind Kind) string { return kind.Describe().Name })
}

// Choices returns the parts that a stack can have of a kind: None first, if the kind allows that.
func Choices(kind Kind) []Part {
	if d := kind.Describe(); d.Default == None {
		return slices.Insert(slices.Clone(kind.Parts()), 0, Part{
			Description: part.Description{Name: None, Summary: "no " + d.Name},
		})
	}
	return kind.Parts()
}

// Choose returns a choice of a part by name, with the given parameters and defaults for the others. The error about an
// unknown name or an invalid value lists the alternatives.
func (k Kinds) Choose(kind, name string, given map[string]string) (Choice, error) {
	of, err := k.Find(kind)
	if err != nil {
		return Choice{}, err
	}
	p, err := part.Find(kind, name, Choices(of), func(p Part) string { return p.Name })
	if err != nil {
		return Choice{}, err
	}
	params, err := p.Params.Resolve(kind+" "+name, given)
	return Choice{Kind: of, Part: p, Params: params}, err
}

// Complete returns the stack with a choice of every kind, in the order of the kinds. It returns an error if a kind
// without a default is missing or a kind occurs twice. A kind or part that was read from JSON and is not known is also
// an error.
func (k Kinds) Complete(s Stack) (Stack, error) {
	for _, c := range s {
		if _, err := k.Find(c.Kind.Describe().Name); err != nil {
			return nil, err
		}
	}
	all := make(Stack, 0, len(k))
	for _, kind := range k {
		d := kind.Describe()
		given := slices.DeleteFunc(slices.Clone(s), func(c Choice) bool { return c.Kind.Describe().Name != d.Name })
		switch {
		case len(given) > 1:
			return nil, fmt.Errorf("the stack has two %s, %s and %s", d.Plural, given[0].ID(), given[1].ID())
		case len(given) == 1:
			c := given[0]
			if _, ok := c.Kind.(named); ok {
				var err error
				if c, err = k.Choose(d.Name, c.Part.Name, c.Params); err != nil {
					return nil, err
				}
			}
			all = append(all, c)
		case d.Default == "":
			return nil, fmt.Errorf("the stack has no %s (known: %s)", d.Name, strings.Join(Names(kind), ", "))
		default:
			c, err := k.Choose(d.Name, d.Default, nil)
			if err != nil {
				return nil, fmt.Errorf("the default of %s: %w", d.Plural, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// Names lists the parts that a stack can have of a kind.
func Names(kind Kind) []string {
	var list []string
	for _, p := range Choices(kind) {
		list = append(list, p.Name)
	}
	return list
}
