package ovs

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

// Names of the programs, and of their Debian package.
const (
	Server  = "ovsdb-server"
	Daemon  = "ovs-vswitchd"
	Package = "openvswitch-switch"
)

// schema is the file in which packages install the schema of the database.
const schema = "/usr/share/openvswitch/vswitch.ovsschema"

// An Instance is the directory with the database and the sockets of one Open vSwitch.
type Instance struct{ Dir string }

// Database returns the socket of the database.
func (i Instance) Database() string { return filepath.Join(i.Dir, "db.sock") }

// ServerControl returns the control socket of the database server.
func (i Instance) ServerControl() string { return filepath.Join(i.Dir, "db.ctl") }

// DaemonControl returns the control socket of the daemon.
func (i Instance) DaemonControl() string { return filepath.Join(i.Dir, "vsw.ctl") }

// Bridge returns the OpenFlow socket of a bridge.
func (i Instance) Bridge(name string) string { return filepath.Join(i.Dir, name+".mgmt") }

func (i Instance) database() string { return filepath.Join(i.Dir, "conf.db") }

// quiet returns options that keep the programs from writing logs of their own: their messages go to standard error.
func quiet() []string { return []string{"-vsyslog:off", "-vfile:off", "-vconsole:info", "--no-chdir"} }

// ServerArgs returns the command line of the database server.
func (i Instance) ServerArgs() []string {
	return append([]string{Server, i.database(), "--remote=punix:" + i.Database(), "--unixctl=" + i.ServerControl()},
		quiet()...)
}

// DaemonArgs returns the command line of the daemon.
func (i Instance) DaemonArgs() []string {
	return append([]string{Daemon, "unix:" + i.Database(), "--unixctl=" + i.DaemonControl()}, quiet()...)
}

// Env returns the environment of both: all their files are in the directory.
func (i Instance) Env() []string {
	return []string{"OVS_RUNDIR=" + i.Dir, "OVS_LOGDIR=" + i.Dir, "OVS_DBDIR=" + i.Dir, "OVS_SYSCONFDIR=" + i.Dir}
}

// Create makes an empty database, and removes files that a previous instance left in the directory. A database is a log
// whose first record is the schema: its length, its hash and its text (ovsdb(5), "Standalone and Active-Backup Database
// Format"). ovsdb-tool(1) would write the same, but is one more program to start.
func (i Instance) Create() error {
	for _, path := range []string{i.Database(), i.ServerControl(), i.DaemonControl()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := Installed(); err != nil {
		return err
	}
	text, err := os.ReadFile(schema)
	if err != nil {
		return fmt.Errorf("make the database of Open vSwitch: %w", err)
	}
	record := fmt.Appendf(nil, "OVSDB JSON %d %x\n", len(text), sha1.Sum(text))
	if err := os.WriteFile(i.database(), append(record, text...), 0o600); err != nil {
		return fmt.Errorf("make the database of Open vSwitch: %w", err)
	}
	return nil
}

// Installed returns a [linux.UnsupportedError] if one of the programs is missing.
func Installed() error {
	const what = "start Open vSwitch"
	hint := "install the package " + Package
	for _, name := range []string{Server, Daemon} {
		if _, err := exec.LookPath(name); err != nil {
			return &linux.UnsupportedError{What: what, Missing: fmt.Sprintf("program %q", name), Hint: hint, Err: err}
		}
	}
	if _, err := os.Stat(schema); err != nil {
		return &linux.UnsupportedError{What: what, Missing: "the schema of its database", Hint: hint, Err: err}
	}
	return nil
}

// Ready waits until a socket accepts connections. gone is closed when its program has ended.
func Ready(socket string, gone <-chan struct{}) error {
	deadline := time.Now().Add(patience)
	for {
		r, err := dialRPC(socket)
		if err == nil {
			r.close()
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("wait for %s: the program has ended", filepath.Base(socket))
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: %w", filepath.Base(socket), err)
		}
	}
}

// pause is the time between two checks of something that takes milliseconds.
const pause = time.Millisecond
