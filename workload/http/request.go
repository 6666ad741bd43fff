package http

import (
	"bytes"
	"net/netip"
)

// Statuses of the server's answers (RFC 9110, section 15; RFC 6585, section 5).
const (
	noContent       = 204
	badRequest      = 400
	notFound        = 404
	tooLarge        = 413
	headTooLarge    = 431
	notImplemented  = 501
	versionNotKnown = 505
)

// request holds the head of a request.
type request struct {
	method []byte
	path   []byte // without the part after a question mark
	size   int    // length in bytes, including an empty line before it
	keep   bool   // the connection is kept
}

// parseRequest parses the request at the start of b (RFC 9112, section 3). status is the status of an error response, 0
// for a valid request. whole reports that no more data is needed to decide.
func parseRequest(b []byte) (r request, status int, whole bool) {
	if len(b) >= len(lineEnd) && string(b[:len(lineEnd)]) == lineEnd { // section 2.2
		b = b[len(lineEnd):]
		r.size = len(lineEnd)
	}
	end := bytes.Index(b, []byte(headEnd))
	if end < 0 || end > headLimit-len(headEnd) {
		return r, headTooLarge, len(b) >= headLimit
	}
	r.size += end + len(headEnd)
	line := b[:bytes.Index(b, []byte(lineEnd))]
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	switch {
	case !token(method), len(target) == 0, !visible(target), len(version) != len("HTTP/1.1"),
		string(version[:5]) != "HTTP/",
		!digit(version[5]), version[6] != '.', !digit(version[7]):
		return r, badRequest, true
	case version[5] != '1':
		return r, versionNotKnown, true
	}
	f, fine := parseFields(b[len(line)+len(lineEnd) : end+len(lineEnd)])
	older := version[7] == '0'
	switch {
	case !fine, f.hosts > 1, f.hosts == 0 && !older: // section 3.2
		return r, badRequest, true
	case f.coded:
		return r, notImplemented, true
	case f.length > 0:
		return r, tooLarge, true // no resource of the server takes a body
	}
	if r.method, r.path = method, path(target); r.path == nil {
		return r, badRequest, true
	}
	r.keep = !f.close && (!older || f.persistent)
	return r, 0, true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// visible reports whether b consists of visible ASCII characters, like targets (RFC 3986).
func visible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// path returns the path of a target in origin form, or in absolute form, which a server also has to understand (RFC
// 9112, section 3.2). It is nil if an absolute form is not an HTTP URI (RFC 9110, section 4.2.1).
func path(target []byte) []byte {
	if scheme := bytes.Index(target, []byte("://")); scheme > 0 && target[0] != '/' {
		if !is(target[:scheme], "http") {
			return nil
		}
		target = target[scheme+len("://"):]
		site := target
		if end := bytes.IndexAny(target, "/?"); end >= 0 {
			site = target[:end]
		}
		if !authority(site) {
			return nil
		}
		if target = target[len(site):]; len(target) == 0 || target[0] == '?' {
			return []byte("/")
		}
	}
	if query := bytes.IndexByte(target, '?'); query >= 0 {
		target = target[:query]
	}
	return target
}

// authority reports whether b is a name or an address, with or without a port. Names are host names: letters, digits,
// hyphens and dots.
func authority(b []byte) bool {
	host, port := b, []byte(nil)
	if colon := bytes.LastIndexByte(b, ':'); colon > bytes.LastIndexByte(b, ']') {
		if host, port = b[:colon], b[colon+1:]; len(port) == 0 {
			return false
		}
	}
	for _, c := range port {
		if !digit(c) {
			return false
		}
	}
	if inside, ok := bytes.CutPrefix(host, []byte("[")); ok {
		inside, ok = bytes.CutSuffix(inside, []byte("]"))
		a, err := netip.ParseAddr(string(inside))
		return ok && err == nil && a.Is6() && a.Zone() == ""
	}
	for _, c := range host {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && !digit(c) && c != '-' && c != '.' {
			return false
		}
	}
	return len(host) > 0
}
