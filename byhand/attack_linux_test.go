package byhand

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// The flags of TestAttack; make fuzz-sink sets them.
var (
	attackTime    = flag.Duration("attack", 5*time.Second, "how long TestAttack plays sequences of messages to a sink")
	attackProgram = flag.String("program", "", "the nettoll whose sink TestAttack attacks; none: this binary's")
)

// attackMemory is the memory budget of a sink under attack.
const attackMemory = 512 << 20

// tape is the source of a sequence of messages: bytes, followed by zeros.
type tape struct{ data []byte }

func (t *tape) byte() int {
	if len(t.data) == 0 {
		return 0
	}
	b := t.data[0]
	t.data = t.data[1:]
	return int(b)
}

func (t *tape) below(n int) int { return (t.byte()<<8 | t.byte()) % n }

// often is true for most bytes, including all small ones.
func (t *tape) often() bool { return t.byte() < 244 }

// number returns a plausible number in most cases, and otherwise one that often breaks programs.
func (t *tape) number(plausible int64) int64 {
	if t.often() {
		return plausible
	}
	absurd := []int64{
		0, 1, -1, 2, 9, 64, 65, 1 << 15, 1 << 16, 1<<16 - 1, 1e6, 1e9, 6e10, 6e10 + 1, math.MaxInt32,
		math.MaxUint32, math.MaxInt64, math.MinInt64,
	}
	return absurd[t.below(len(absurd))]
}

// value returns a possible value of a parameter.
func (t *tape) value(p part.Param) string {
	if len(p.Values) > 0 && t.byte() < 200 {
		return p.Values[t.below(len(p.Values))]
	}
	words := slices.Concat(p.Values, []string{
		p.Default, "0", "1", "2", "8", "64", "100", "1000", "10000", "1000000", "1024", "65507", "1MiB", "512KiB",
		"536870912", "auto", "none", "same", "true", "false", "1ms", "20ms", "1s", "1m",
		"0s", "1k/s", "1M/s", "1e9/s", "500kbit/s", "10Gbit/s", "50%", "100%", "0%", "poisson", "pareto:0.1",
		"bursts:1ms:1ms", "replay:/etc/passwd", "-1", "NaN", "1e309", "99999999999999999999",
		"", "\x00", strings.Repeat("x", 300), "A", "udp", "tcp", "set", "mixed", "reverse", "both",
	})
	return words[t.below(len(words))]
}

// plot is one sequence of messages of one attacker.
type plot struct {
	tape
	to    string     // the address of the sink
	from  netip.Addr // of the attacker
	tally *tally
	loads []workload.Workload
	brief bool // it does not wait for an answer once it is broken

	line   line
	broken bool // the sink may wait for the rest of a message
	opened opening
	sink   []uint16 // its ports
	trial  uint64
	conns  []net.Conn // of traffic
	left   int        // messages that may follow
}

// mostMessages is the largest number of messages in a plot.
const mostMessages = 40

// play plays a sequence, and leaves nothing open except what the sink has to close.
func (p *plot) play(ctx context.Context) {
	defer func() {
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.line.close()
	}()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.from, 0)), Timeout: answerLimit}
	conn, err := dialer.DialContext(ctx, "tcp", p.to)
	if err != nil {
		p.tally.refused("no connection")
		return
	}
	p.line = line{conn: conn, peer: "the sink"}
	if !p.meet(ctx) {
		return
	}
	p.tally.add(func(t *tally) { t.sessions++ })
	p.left = mostMessages
	for _, do := range []func() bool{
		p.echo, p.open, p.connect, p.ready, p.prepare, p.run, p.talk, p.collect, p.prepare, p.run, p.talk, p.collect, p.end,
	} {
		for { // messages that are out of order
			if p.left--; p.left == 0 || ctx.Err() != nil {
				return
			}
			if b := p.byte(); b < 216 {
				break
			} else if !p.anything(b) {
				return
			}
		}
		if p.byte() >= 240 {
			continue // a message is left out
		}
		if !do() {
			return
		}
	}
}

// meet says hello, waits for its turn, and reports whether its turn has come.
func (p *plot) meet(ctx context.Context) bool {
	first := hello{Nettoll: Protocol, Version: "attack"}
	if !p.often() {
		first.Nettoll = int(p.number(1))
	}
	if p.byte() >= 254 { // not a hello
		_, _ = p.line.conn.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
		p.tally.sent(1)
		p.tally.refused("no nettoll")
		return false
	}
	p.tally.sent(1)
	if p.line.say(first) != nil {
		return false
	}
	for start := time.Now(); ctx.Err() == nil && time.Since(start) < 2*time.Minute; {
		var h hello
		switch err := p.line.hear(&h, welcomeLimit); {
		case err != nil:
			p.tally.refused("connection ended")
			return false
		case h.Refused != "":
			p.tally.refused(reason(h.Refused))
			return false
		case h.Place == 0:
			return true
		}
		if p.byte() >= 252 { // it vanishes while it waits
			return false
		}
		if p.line.say(hello{Nettoll: Protocol, Version: "attack"}) != nil {
			return false
		}
		p.tally.sent(1)
	}
	return false
}

// reason returns the kind of refusal of a text.
func reason(text string) string {
	for _, known := range []error{
		errVersion, errNotAllowed, errToken, errQueueFull, errStart, errOrder, errMemory, errOutOfMemory, errTurn, errHangs,
		errSlow, errFrame,
	} {
		if strings.Contains(text, known.Error()) {
			return known.Error()
		}
	}
	for _, known := range []string{
		"a sink reads no files", "pairs: want", "ports", "trials of", "unknown workload", "has no parameter",
		"does not run by hand", "out of range", "invalid value", "not a size", "want ",
		"needs a rate", "an opening in", "nothing to open", "accept:", "this session has failed in the sink", "open sink",
	} {
		if strings.Contains(text, known) {
			return known
		}
	}
	return text
}

// ask sends a request and reports whether the session goes on.
func (p *plot) ask(r request) (answer, bool) {
	p.tally.sent(1)
	if err := p.line.say(r); err != nil {
		return answer{}, false
	}
	if p.byte() >= 248 { // it does not wait for the answer
		return answer{}, true
	}
	var a answer
	within := 3*openLimit + LongestTrial
	gone := p.brief && p.broken
	if gone {
		within = time.Second
	}
	if err := p.line.hear(&a, within); err != nil {
		if errors.Is(err, errSilent) && !gone {
			p.tally.add(func(t *tally) { t.silent++ })
		}
		p.tally.refused("connection ended")
		return a, false
	}
	if a.Error != "" {
		p.tally.refused(reason(a.Error))
		if strings.Contains(a.Error, errHangs.Error()) {
			p.tally.add(func(t *tally) { t.hangs = append(t.hangs, fmt.Sprintf("%+v: %s", p.opened, a.Error)) })
		}
		return a, false
	}
	return a, true
}

func (p *plot) echo() bool {
	_, on := p.ask(request{Do: doEcho, Bytes: make([]byte, max(0, min(p.number(20), 100_000)))})
	return on
}

func (p *plot) open() bool {
	o := opening{Workload: "nosuch", Params: map[string]string{}, Seed: uint64(p.byte())}
	if load := p.loads[p.below(len(p.loads))]; p.often() {
		o.Workload = load.Describe().Name
		for _, param := range load.Describe().Params {
			if p.byte() >= 224 {
				o.Params[param.Name] = p.value(param)
			}
		}
	}
	if p.byte() >= 250 {
		o.Params[strings.Repeat("p", p.byte())] = "1"
	}
	pairs := 1 + p.below(3)
	if !p.often() {
		pairs = int(max(0, min(p.number(64), 10_000)))
	}
	for i := range pairs {
		o.Ports = append(o.Ports, uint16(p.number(int64(20_000+8*i))))
	}
	o.Each = int(p.number(8))
	o.Length = p.number(int64(10+p.byte()/8) * int64(time.Millisecond))
	o.Warm = p.number(o.Length / 10)
	a, on := p.ask(request{Do: doOpen, Open: &o})
	if on && len(a.Ports) > 0 {
		p.opened, p.sink = o, a.Ports
	}
	return on
}

// connect makes the connections that the sink waits for, or others.
func (p *plot) connect() bool {
	count := 1
	for _, many := range []string{"flows", "clients", "connections", "videos"} {
		for _, l := range p.loads {
			if d := l.Describe(); d.Name == p.opened.Workload {
				if params, err := d.Resolve(p.opened.Params); err == nil {
					count = max(count, params.Count(many))
				}
			}
		}
	}
	dialer := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.from, 0)),
		Timeout:   100 * time.Millisecond,
	}
	for _, port := range p.sink[:min(len(p.sink), 4)] {
		for range min(count, 64) {
			c, err := dialer.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddrPort(p.to).Addr(), port).String())
			if err != nil {
				break // it speaks UDP
			}
			p.conns = append(p.conns, c)
		}
	}
	return true
}

func (p *plot) ready() bool {
	_, on := p.ask(request{Do: doReady})
	return on
}

func (p *plot) prepare() bool {
	p.trial = uint64(p.number(int64(p.trial + 1)))
	_, on := p.ask(request{Do: doPrepare, Trial: p.trial})
	return on
}

func (p *plot) run() bool {
	trial := p.trial
	if p.byte() >= 240 {
		trial = uint64(p.number(7))
	}
	_, on := p.ask(request{Do: doGo, Trial: trial, Ahead: p.number(int64(time.Millisecond))})
	return on
}

// talk sends traffic to the sink's ports: packets of the workload, packets of protocols on top, and garbage.
func (p *plot) talk() bool {
	texts := []string{
		"", "*1\r\n$4\r\nPING\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$100000\r\n", "*2\r\n$3\r\nGET\r\n$5\r\nkey:0\r\n",
		"*1\r\n$12\r\nNETTOLL.OVER\r\n", "*1000000000\r\n", "$-1\r\n",
		"GET /page HTTP/1.1\r\nHost: x\r\n\r\n", "POST /over HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n" +
			strings.Repeat("A: b\r\n", 1000), strings.Repeat("\xff", 2000), strings.Repeat("\x00", 70000),
	}
	message := func() []byte {
		if p.byte() < 128 {
			b := make([]byte, traffic.HeaderSize+p.below(1500))
			traffic.PutHeader((*[traffic.HeaderSize]byte)(b), p.trial, uint64(p.number(int64(p.byte()))), p.number(0))
			if p.byte() < 128 && len(b) > traffic.HeaderSize+4 {
				binary.LittleEndian.PutUint32(b[traffic.HeaderSize:], uint32(p.number(int64(len(b)))))
			}
			return b
		}
		return []byte(texts[p.below(len(texts))])
	}
	for _, c := range p.conns {
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		for range 1 + p.byte()%8 {
			_, _ = c.Write(message())
		}
	}
	for i, port := range p.sink[:min(len(p.sink), 4)] {
		local := netip.AddrPortFrom(p.from, p.opened.Ports[i])
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(local),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddrPort(p.to).Addr(), port)))
		if err != nil {
			continue
		}
		for range p.byte() {
			_, _ = c.Write(message())
		}
		_ = c.Close()
	}
	return true
}

func (p *plot) collect() bool {
	_, on := p.ask(request{Do: doCollect})
	return on
}

func (p *plot) end() bool {
	p.tally.sent(1)
	_ = p.line.say(request{Do: doEnd})
	return false
}

// anything sends something although it is not its turn.
func (p *plot) anything(kind int) bool {
	switch kind % 16 {
	case 0:
		return p.echo()
	case 1:
		return p.open()
	case 2:
		return p.ready()
	case 3:
		return p.prepare()
	case 4:
		return p.run()
	case 5:
		return p.collect()
	case 6:
		_, on := p.ask(request{Do: doProbe})
		return on
	case 7:
		return p.end()
	case 8:
		_, on := p.ask(request{Do: "nosuch"})
		return on
	case 9: // bytes that are not a message
		p.tally.sent(1)
		p.broken = true
		b := make([]byte, 4+p.below(2000))
		binary.BigEndian.PutUint32(b, uint32(p.number(int64(len(b)-4))))
		_, _ = p.line.conn.Write(b)
		return p.often()
	case 10: // half a message, and then nothing
		p.tally.sent(1)
		_, _ = p.line.conn.Write([]byte{0, 0, 1, 0, '{'})
		return false
	case 11:
		time.Sleep(time.Duration(p.byte()) * time.Millisecond / 4)
		return true
	case 12: // it is reset
		if tcp, ok := p.line.conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return false
	case 13:
		return p.connect()
	case 14:
		return p.talk()
	}
	return false // it is gone
}

// tally counts the results of attacks.
type tally struct {
	mu                         sync.Mutex
	messages, sessions, silent int
	refusals                   map[string]int
	honest                     int
	slowest                    time.Duration // of the honest
	failures                   []string      // likewise
	hangs                      []string      // openings whose trials did not end
	resident                   int64
}

func (t *tally) add(change func(*tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t)
}

func (t *tally) sent(n int) { t.add(func(t *tally) { t.messages += n }) }

func (t *tally) refused(why string) {
	t.add(func(t *tally) {
		if t.refusals == nil {
			t.refusals = map[string]int{}
		}
		t.refusals[why]++
	})
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "messages sent: %d\nsessions: %d\nhonest runs served: %d, the slowest in %v\nlargest resident "+
		"memory: %d MiB of a budget of %d MiB\nrefusals:\n",
		t.messages, t.sessions, t.honest, t.slowest.Round(time.Millisecond), t.resident>>20, attackMemory>>20)
	for _, why := range slices.SortedFunc(maps.Keys(t.refusals), func(a, b string) int {
		return t.refusals[b] - t.refusals[a]
	}) {
		fmt.Fprintf(&b, "  %7d  %s\n", t.refusals[why], why)
	}
	for _, h := range t.hangs {
		fmt.Fprintf(&b, "a trial did not end: %s\n", h)
	}
	for _, f := range t.failures {
		fmt.Fprintf(&b, "honest source: %s\n", f)
	}
	return b.String()
}

// target is a sink in its own process.
type target struct {
	cmd   *exec.Cmd
	at    string
	said  saying
	ended chan struct{}
}

func newTarget(t testing.TB) *target {
	t.Helper()
	workloadtest.Loopback(t)
	const wherever = "127.0.0.1:0"
	x := &target{ended: make(chan struct{})}
	if *attackProgram == "" {
		x.cmd = exec.Command("/proc/self/exe", "sink", wherever, strconv.Itoa(attackMemory))
	} else {
		x.cmd = exec.Command(*attackProgram, "sink", "--listen", wherever, "--memory", strconv.Itoa(attackMemory>>20)+"MiB")
	}
	x.cmd.Stderr = &x.said
	if err := process.Start(x.cmd, process.Options{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = x.cmd.Wait()
		close(x.ended)
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill()
		<-x.ended
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, at, waits := strings.Cut(x.said.String(), "waits at "); waits {
			x.at = strings.TrimSpace(at)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no sink: %s", &x.said)
		}
	}
	return x
}

// Write takes the output of the sink.
func (s *saying) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		s.say(strings.TrimSuffix(string(line), "\n"))
	}
	return len(p), nil
}

func (x *target) up() bool {
	select {
	case <-x.ended:
		return false
	default:
		return true
	}
}

// faults returns the errors that ended sessions and that no source should be able to cause.
func (x *target) faults() []string {
	var list []string
	for line := range strings.Lines(x.said.String()) {
		if strings.Contains(line, "has ended by a fault") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// family returns the processes of the sink and of its sessions.
func (x *target) family() []int {
	pids := []int{x.cmd.Process.Pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[0]))
	for _, file := range tasks {
		b, _ := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(word)
			pids = append(pids, pid)
		}
	}
	return pids
}

// resident returns the memory of the sink's processes, in bytes. Shared memory counts once for each process.
func (x *target) resident() (sum int64) {
	for _, pid := range x.family() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				sum += kib << 10
			}
		}
	}
	return sum
}

// descriptors returns the numbers of descriptors and threads of the sink's own process.
func (x *target) descriptors() (files, threads int) {
	count := func(dir string) int {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/%s", x.cmd.Process.Pid, dir))
		return len(list)
	}
	return count("fd"), count("task")
}

// atRest waits until the sink serves no source and has released all resources of the sources that it served.
func (x *target) atRest(t testing.TB, files int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now, _ := x.descriptors()
		if len(x.family()) == 1 && now <= files {
			return
		}
		if !x.up() || time.Now().After(deadline) {
			t.Fatalf("processes %v, %d descriptors, want the sink's alone and %d; up: %v; it said:\n%s", x.family(), now, files,
				x.up(), last(x.said.String(), 2000))
		}
	}
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// honest runs a source like a user. If other work, including that of the attackers, takes the CPUs for half of its
// first interval, it runs again.
func (x *target) honest(ctx context.Context, t testing.TB, name string, given map[string]string) error {
	const tries = 5
	o := options(t, name, x.at, given)
	o.Length = 40 * time.Millisecond
	for try := 1; ; try++ {
		watch := witness.Begin(t)
		r, err := Source(ctx, o)
		seen := watch.Seen(t)
		taken := max(seen.Waited, seen.Excuse())
		switch {
		case err != nil && strings.Contains(err.Error(), "nothing has arrived") && taken > o.Length/2 && try < tries:
		case err != nil:
			return err
		case len(r.Intervals) != o.Trials:
			return fmt.Errorf("%d intervals of %d", len(r.Intervals), o.Trials)
		default:
			return nil
		}
	}
}

// TestAttack checks that the sink stays up and within its budget, whatever sources send and in whatever order. It
// serves honest sources in between, and releases everything afterwards. make fuzz-sink does this for an hour.
func TestAttack(t *testing.T) {
	x := newTarget(t)
	if err := x.honest(t.Context(), t, "udp-rr", nil); err != nil { // allocates what is allocated only once
		t.Fatal(err)
	}
	x.atRest(t, math.MaxInt)
	files, _ := x.descriptors()
	ctx, cancel := context.WithTimeout(t.Context(), *attackTime)
	defer cancel()
	var (
		sum   tally
		group sync.WaitGroup
	)
	for i := range 4 {
		group.Go(func() {
			random := rand.NewChaCha8([32]byte{
				byte(i), byte(time.Now().Unix()), byte(time.Now().Unix() >> 8), byte(time.Now().Unix() >> 16),
			})
			for ctx.Err() == nil && x.up() {
				data := make([]byte, 4096)
				_, _ = random.Read(data)
				p := &plot{
					tape: tape{data}, to: x.at, from: netip.AddrFrom4([4]byte{127, 0, byte(1 + i), 1 + data[4000]%200}),
					tally: &sum, loads: catalogue.New().Workloads,
				}
				p.play(ctx)
			}
		})
	}
	group.Go(func() { // a source that says nothing
		for ctx.Err() == nil && x.up() {
			conn, err := (&net.Dialer{
				LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 9)}, Timeout: time.Second,
			}).DialContext(ctx, "tcp", x.at)
			if err == nil {
				time.AfterFunc(20*time.Second, func() { _ = conn.Close() })
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	group.Go(func() {
		names := []string{"udp-rr", "tcp-stream", "udp-rate", "kv", "http", "dns", "tcp-rr", "connections", "quake3", "burst"}
		for i := 0; ctx.Err() == nil && x.up(); i++ {
			start := time.Now()
			one, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
			err := x.honest(one, t, names[i%len(names)], nil)
			done()
			sum.add(func(s *tally) {
				if took := time.Since(start); took > s.slowest {
					s.slowest = took
				}
				if err != nil {
					s.failures = append(s.failures, fmt.Sprintf("%s: %v", names[i%len(names)], err))
				} else {
					s.honest++
				}
			})
			time.Sleep(200 * time.Millisecond)
		}
	})
	group.Go(func() {
		for told := time.Now(); ctx.Err() == nil && x.up(); time.Sleep(20 * time.Millisecond) {
			now := x.resident()
			sum.add(func(s *tally) { s.resident = max(s.resident, now) })
			if time.Since(told) > time.Minute {
				told = time.Now()
				fmt.Fprintf(os.Stderr, "%s\n%sfaults of sessions: %d\n\n", told.UTC().Format(time.TimeOnly), &sum, len(x.faults()))
			}
		}
	})
	group.Wait()
	up := x.up()
	if up {
		if err := x.honest(t.Context(), t, "udp-rr", nil); err != nil {
			t.Errorf("the source after the attack: %v", err)
		}
		x.atRest(t, files)
	}
	faults := x.faults()
	_, threads := x.descriptors()
	t.Logf("%scrashes of the sink: %d\nfaults of sessions: %d\nthreads of the sink at the end: %d", &sum,
		map[bool]int{false: 1}[up], len(faults), threads)
	if !up || len(faults) > 0 || sum.silent > 0 || len(sum.failures) > 0 || sum.honest == 0 ||
		sum.resident > attackMemory {
		t.Errorf("up: %v; %d requests without an answer; faults:\n%s\nit said last:\n%s", up, sum.silent,
			strings.Join(faults, "\n"), last(x.said.String(), 2000))
	}
}

// FuzzSessions plays sequences of messages to a sink. After bytes that claim to be a longer message the sink waits for
// the rest, for up to [openLimit]. The source does not wait for that: Go takes an input of more than 10 s for one that
// hangs.
func FuzzSessions(f *testing.F) {
	f.Add([]byte(nil)) // a session in order
	for kind := range 16 {
		for i, at := range []int{0, 2, 4, 7, 10} { // something out of order before a step
			if testnet.IsSlow() || i == kind%5 {
				f.Add(append(bytes.Repeat([]byte{0}, 3*at), byte(240+kind)))
			}
		}
	}
	loads := catalogue.New().Workloads
	x := newTarget(f)
	if err := x.honest(f.Context(), f, "udp-rr", nil); err != nil {
		f.Fatal(err)
	}
	x.atRest(f, math.MaxInt)
	files, _ := x.descriptors()
	f.Fuzz(func(t *testing.T, data []byte) {
		var sum tally
		p := &plot{tape: tape{data}, to: x.at, from: netip.MustParseAddr("127.0.0.2"), tally: &sum, loads: loads, brief: true}
		p.play(t.Context())
		if now := x.resident(); now > attackMemory {
			t.Errorf("it holds %d MiB of %d MiB", now>>20, attackMemory>>20)
		}
		x.atRest(t, files)
		if err := x.honest(t.Context(), t, "udp-rr", nil); err != nil {
			t.Errorf("an honest source after it: %v", err)
		}
		if faults := x.faults(); len(faults) > 0 || sum.silent > 0 {
			t.Fatalf("%d requests without an answer; faults: %s", sum.silent, strings.Join(faults, "\n"))
		}
	})
}
