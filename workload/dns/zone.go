package dns

// zone is the content of the server: a number of services, and a number of addresses for each.
type zone struct {
	names, addresses int
}

// asked describes what a query asks for.
type asked struct {
	end     int    // of the question
	kind    uint16 // type
	class   uint16
	service int  // number of the service; -1: none
	within  bool // the name is in the cluster's domain, whether it exists or not
	parent  bool // other names are below it
	edns    bool
	version byte
	size    int // answer size over UDP that the client accepts
}

// answer writes the answer to a query into out, which has room for [messageMax] bytes, and returns its length. It
// returns 0, without an answer, if the data is not a query. Over a stream, the length has no limit.
//
//go:nosplit
func (z *zone) answer(out, in []byte, stream bool) int {
	if len(in) < headerSize || get16(in, 2)&flagResponse != 0 {
		return 0 // two servers that answer answers could do so for ever
	}
	flags := get16(in, 2)
	copy(out[:headerSize], in)
	for i := 4; i < headerSize; i++ {
		out[i] = 0
	}
	reply := flagResponse | flags&(opcodeMask|flagRecursion)
	if flags&opcodeMask != 0 {
		put16(out, 2, reply|notImp)
		return headerSize
	}
	var q asked
	if !z.parse(&q, in) {
		put16(out, 2, reply|formErr)
		return headerSize
	}
	put16(out, 4, 1)
	copy(out[headerSize:q.end], in[headerSize:q.end])
	at, code, records := q.end, uint16(noError), 0
	switch {
	case q.version > 0:
		code = badVers
	case !q.within || q.class != classIN:
		code = refused
	case q.service < 0 && !q.parent:
		code, reply = nxDomain, reply|flagAuthority
	default:
		reply |= flagAuthority
		if q.service >= 0 {
			records = z.addresses
		}
	}
	kind := q.kind
	switch {
	case kind == typeAny: // some of the records are enough (RFC 8482)
		kind = typeA
	case kind != typeA && kind != typeAAAA:
		records = 0
	}
	most := len(out)
	if !stream {
		most = q.size
	}
	if at+records*recordSize(kind)+q.optSize() > most {
		records, reply = 0, reply|flagTruncated // all or none of a set (RFC 2181, section 9)
	}
	for i := range records {
		put16(out, at, question)
		put16(out, at+2, kind)
		put16(out, at+4, classIN)
		put16(out, at+6, 0)
		put16(out, at+8, lifetime)
		n := address(out[at+12:], kind, q.service, i)
		put16(out, at+10, uint16(n))
		at += 12 + n
	}
	put16(out, 2, reply|code&rcodeMask)
	put16(out, 6, uint16(records))
	if q.edns {
		opt := out[at : at+optSize]
		for i := range opt {
			opt[i] = 0
		}
		put16(opt, 1, typeOPT)
		put16(opt, 3, ednsLimit)
		opt[5] = byte(code >> 4)
		put16(out, 10, 1)
		at += optSize
	}
	return at
}

// optSize is the length of an OPT record without options, in bytes.
const optSize = 1 + fixedSize

// recordSize is the length of an address record in bytes.
//
//go:nosplit
func recordSize(kind uint16) int {
	if kind == typeAAAA {
		return 2 + fixedSize + 16
	}
	return 2 + fixedSize + 4
}

//go:nosplit
func (q *asked) optSize() int {
	if q.edns {
		return optSize
	}
	return 0
}

// parse reads a query, and reports whether it is one: a question, optionally with further records, and nothing after
// them.
//
//go:nosplit
func (z *zone) parse(q *asked, in []byte) bool {
	// one question (RFC 9619), and nothing that only answers have
	if get16(in, 4) != 1 || get16(in, 6) != 0 || get16(in, 8) != 0 {
		return false
	}
	at := headerSize
	for at < len(in) && in[at] != 0 {
		if in[at] > labelMax { // the first name of a message cannot point anywhere
			return false
		}
		at += 1 + int(in[at])
	}
	at++
	if at-headerSize > longest || at+4 > len(in) {
		return false
	}
	z.find(q, in[headerSize:at])
	q.kind, q.class, q.end, q.size = get16(in, at), get16(in, at+2), at+4, plainLimit
	at += 4
	for range get16(in, 10) {
		owner := at
		at = skip(in, at)
		if at < 0 || at+fixedSize > len(in) {
			return false
		}
		kind, next := get16(in, at), at+fixedSize+int(get16(in, at+8))
		if next > len(in) {
			return false
		}
		if kind == typeOPT {
			if q.edns || in[owner] != 0 { // only one, of the root (RFC 6891, section 6.1.1)
				return false
			}
			q.edns, q.version = true, in[at+5]
			q.size = min(max(int(get16(in, at+2)), plainLimit), ednsLimit)
		}
		at = next
	}
	return at == len(in)
}

// skip returns the end of the name that begins at an offset; -1 if it has no end.
//
//go:nosplit
func skip(m []byte, at int) int {
	for at < len(m) {
		switch n := m[at]; {
		case n == 0:
			return at + 1
		case n >= pointer:
			if at+2 > len(m) {
				return -1
			}
			return at + 2
		case n > labelMax:
			return -1
		default:
			at += 1 + int(n)
		}
	}
	return -1
}

// find classifies a name.
//
//go:nosplit
func (z *zone) find(q *asked, name []byte) {
	q.service = -1
	q.within = ends(name, cluster)
	if !q.within {
		return
	}
	q.parent = is(name, cluster) || is(name, "\x03svc"+cluster) || is(name, suffix)
	if len(name) != questionAt || name[0] != firstLabel || !ends(name, suffix) || !ends(name[1:1+len(prefix)], prefix) {
		return
	}
	n := 0
	for _, c := range name[1+len(prefix) : 1+firstLabel] {
		if c < '0' || c > '9' {
			return
		}
		n = 10*n + int(c-'0')
	}
	if n < z.names {
		q.service = n
	}
}

// is reports whether a name equals the given labels, ignoring case.
//
//go:nosplit
func is(name []byte, labels string) bool { return len(name) == len(labels) && ends(name, labels) }

// ends reports whether a name ends in labels, which are in lower case; case is ignored (RFC 4343).
//
//go:nosplit
func ends(name []byte, labels string) bool {
	from := len(name) - len(labels)
	if from < 0 {
		return false
	}
	for i := range len(labels) {
		c := name[from+i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != labels[i] {
			return false
		}
	}
	return true
}
