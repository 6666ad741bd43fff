package ruleset

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// A Batch is a set of changes of one table, of which all or none are made. That does not hold for a batch larger than
// the socket's buffer: see [Add], which handles that case.
type Batch struct {
	// Echo requests the handles of rules that are added.
	Echo   bool
	family byte
	table  string
	buf    []byte
	ends   []part
}

// part describes the messages up to the end, for errors.
type part struct {
	end  int
	what string
}

// NewBatch returns an empty batch.
func NewBatch(family, table string) *Batch { return &Batch{family: families()[family], table: table} }

// families returns the numbers of families of tables, NFPROTO_… of include/uapi/linux/netfilter.h.
func families() map[string]byte { return map[string]byte{"inet": 1, "netdev": 5, "bridge": 7} }

// Messages, enum nf_tables_msg_types, of the subsystem NFNL_SUBSYS_NFTABLES.
const (
	subsystem         = 10
	newTable          = 0
	getTable          = 1
	deleteTable       = 2
	newChain          = 3
	getChain          = 4
	deleteChain       = 5
	newRule           = 6
	getRule           = 7
	deleteRule        = 8
	newSet            = 9
	getSet            = 10
	newSetElement     = 12
	getSetElement     = 13
	deleteElement     = 14
	messageHeader     = 16 // struct nlmsghdr
	familyHeader      = 4  // struct nfgenmsg
	flagRequest       = 1
	flagAcknowledge   = 4
	flagEcho          = 8
	flagDump          = 0x300
	flagInterrupted   = 0x10
	flagExclusive     = 0x200
	flagCreate        = 0x400
	flagAppend        = 0x800
	kindError         = 2  // NLMSG_ERROR
	kindDone          = 3  // NLMSG_DONE
	kindBegin         = 16 // NFNL_MSG_BATCH_BEGIN
	kindEnd           = 17 // NFNL_MSG_BATCH_END
	elementsOfMessage = 512
	elementsOfMap     = 256 // elements of a map also hold the name of a chain, and a list of elements is at most 64 KiB
	attributeName     = 1
	attributeSecond   = 2
	attributeThird    = 3
	chainHook         = 4
	chainPolicy       = 5
	chainType         = 7
	hookNumber        = 1
	hookPriority      = 2
	hookLink          = 3
	setFlags          = 3
	setKeyType        = 4
	setKeyLength      = 5
	setDataType       = 6
	setDataLength     = 7
	setDescription    = 9
	setID             = 10
	descriptionSize   = 1
	flagMap           = 8          // NFT_SET_MAP
	typeVerdict       = 0xffffff00 // NFT_DATA_VERDICT
	lengthVerdict     = 16         // sizeof(struct nft_verdict)
	elementKey        = 1
	elementData       = 2
	listElements      = 3
	fieldBits         = 6 // TYPE_BITS of nft(8), include/datatype.h
	tableFlags        = 2
	flagDormant       = 1 // NFT_TABLE_F_DORMANT
	ruleHandle        = 3
	ruleExpressions   = 4
	ruleChain         = 2
	policyDrop        = 0 // NF_DROP
)

// message begins a message. What describes it in errors.
func (b *Batch) message(kind, flags uint16, what string) int {
	at := len(b.buf)
	b.buf = message(b.buf, subsystem<<8|kind, flagRequest|flags, b.family, 0)
	if n := len(b.ends); n == 0 || b.ends[n-1].what != what {
		b.ends = append(b.ends, part{what: what})
	}
	return at
}

// close ends the message that begins at the given offset.
func (b *Batch) close(at int) {
	binary.NativeEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at))
	b.ends[len(b.ends)-1].end = len(b.buf)
}

// message appends the headers of a message, struct nlmsghdr and struct nfgenmsg.
func message(b []byte, kind, flags uint16, family byte, resource uint16) []byte {
	b = binary.NativeEndian.AppendUint32(b, messageHeader+familyHeader)
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // the sequence number is the offset in the whole batch, see send
	return binary.BigEndian.AppendUint16(append(b, family, 0), resource)
}

func (b *Batch) addTable() {
	at := b.message(newTable, flagCreate|flagExclusive, "table")
	b.buf = text(b.buf, attributeName, b.table)
	b.close(at)
}

func (b *Batch) deleteTable() {
	at := b.message(deleteTable, 0, "table")
	b.buf = text(b.buf, attributeName, b.table)
	b.close(at)
}

// AddChain adds a chain that other chains call, unless it exists.
func (b *Batch) AddChain(name string) { b.chain(name, nil) }

func (b *Batch) chain(name string, h *Hook) {
	what := "chain"
	if h != nil {
		what = `chain of the hook "` + h.Name + `"`
	}
	at := b.message(newChain, flagCreate, what)
	b.buf = text(text(b.buf, attributeName, b.table), attributeThird, name)
	if h != nil {
		hook := len(b.buf)
		b.buf = number(number(open(b.buf, chainHook), hookNumber, h.number(b.family)), hookPriority, uint32(h.Priority))
		if h.Link != "" {
			b.buf = text(b.buf, hookLink, h.Link)
		}
		shut(b.buf, hook)
		b.buf = text(number(b.buf, chainPolicy, policyDrop), chainType, "filter")
	}
	b.close(at)
}

// number returns the number of the hook in its family: enum nf_inet_hooks, the same for bridges, and enum nf_dev_hooks.
func (h Hook) number(family byte) uint32 {
	switch {
	case family == families()["netdev"] && h.Name == "egress":
		return 1
	case family == families()["netdev"]:
		return 0 // ingress
	case h.Name == "input":
		return 1
	case h.Name == "output":
		return 3
	}
	return 2
}

// DeleteChain removes a chain without rules that no other chain calls.
func (b *Batch) DeleteChain(name string) {
	at := b.message(deleteChain, 0, "chain")
	b.buf = text(text(b.buf, attributeName, b.table), attributeThird, name)
	b.close(at)
}

// AddRule adds a rule at the end of a chain.
func (b *Batch) AddRule(chain string, r Rule) {
	flags := uint16(flagCreate | flagAppend)
	if b.Echo {
		flags |= flagEcho
	}
	at := b.message(newRule, flags, "rule")
	b.buf = text(text(b.buf, attributeName, b.table), ruleChain, chain)
	expressions := len(b.buf)
	b.buf = append(open(b.buf, ruleExpressions), r...)
	shut(b.buf, expressions)
	b.close(at)
}

// DeleteRule removes a rule by its handle.
func (b *Batch) DeleteRule(chain string, handle uint64) {
	at := b.message(deleteRule, 0, "rule")
	b.buf = text(text(b.buf, attributeName, b.table), ruleChain, chain)
	b.buf = attribute(b.buf, ruleHandle, binary.BigEndian.AppendUint64(nil, handle)...)
	b.close(at)
}

func (b *Batch) addSet(s Set, id uint32) {
	at := b.message(newSet, flagCreate, "set")
	flags, kind, length := uint32(0), uint32(0), uint32(0)
	if s.Map {
		flags = flagMap
	}
	for _, f := range s.Fields {
		kind, length = kind<<fieldBits|uint32(f), length+f.length()
	}
	b.buf = number(text(text(b.buf, attributeName, b.table), attributeSecond, s.Name), setFlags, flags)
	b.buf = number(number(b.buf, setKeyType, kind), setKeyLength, length)
	if s.Map {
		b.buf = number(number(b.buf, setDataType, typeVerdict), setDataLength, lengthVerdict)
	}
	description := len(b.buf)
	b.buf = number(open(b.buf, setDescription), descriptionSize, uint32(s.Size))
	shut(b.buf, description)
	b.buf = number(b.buf, setID, id)
	b.close(at)
}

// AddElements adds elements to a set. Existing elements stay.
func (b *Batch) AddElements(set string, list iter.Seq[Element]) {
	b.elements(newSetElement, flagCreate, set, list)
}

// DeleteElements removes elements from a set. All of them must be in it.
func (b *Batch) DeleteElements(set string, list iter.Seq[Element]) {
	b.elements(deleteElement, 0, set, list)
}

func (b *Batch) elements(kind, flags uint16, set string, elements iter.Seq[Element]) {
	at, list, n := 0, 0, 0
	end := func() {
		if n > 0 {
			shut(b.buf, list)
			b.close(at)
		}
		n = 0
	}
	for e := range elements {
		if n == elementsOfMessage || n == elementsOfMap && e.Chain != "" {
			end()
		}
		if n == 0 {
			at = b.message(kind, flags, "elements of a set")
			b.buf = text(text(b.buf, attributeName, b.table), attributeSecond, set)
			list = len(b.buf)
			b.buf = open(b.buf, listElements)
		}
		element := len(b.buf)
		b.buf = data(open(b.buf, listElement), elementKey, e.Key)
		if e.Chain != "" {
			to := len(b.buf)
			b.buf = verdict(open(b.buf, elementData), verdictGoto, e.Chain)
			shut(b.buf, to)
		}
		shut(b.buf, element)
		n++
	}
	end()
}

// messages calls f with the header and the payload of each message of an answer. A payload has at least four bytes.
func messages(b []byte, f func(header, payload []byte) error) error {
	for len(b) >= messageHeader {
		length := int(binary.NativeEndian.Uint32(b))
		if length < messageHeader+familyHeader || length > len(b) {
			return fmt.Errorf("an answer of %d bytes is cut short", len(b))
		}
		if err := f(b[:messageHeader], b[messageHeader:length]); err != nil {
			return err
		}
		b = b[min(len(b), (length+3)&^3):]
	}
	return nil
}

// what describes the message that begins at an offset.
func (b *Batch) what(at int) string {
	for _, p := range b.ends {
		if at < p.end {
			return p.what
		}
	}
	return "transaction"
}
