package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writeTo stores the record with what /proc tells of the processes.
func (r *record) writeTo(dir string) (string, error) {
	program, ok := look(r.Program.Pid)
	if !ok {
		return "", fmt.Errorf("/proc doesn't show process %d", r.Program.Pid)
	}
	owner, ok := look(r.Owner.Pid)
	if !ok {
		return "", fmt.Errorf("/proc doesn't show process %d", r.Owner.Pid)
	}
	r.Program.Start, r.Owner.Start = program.start, owner.start
	var err error
	if r.Boot, r.Namespace, err = here(); err != nil {
		return "", err
	}
	return r.write(dir)
}

// here returns the id of the machine's start, and the namespace of its process
// ids that this program is in.
func here() (boot, namespace string, err error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", err
	}
	namespace, err = os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(text)), namespace, err
}

// clean ends what the records of a folder name and nothing else, and removes
// those that name nothing any more. A record that can't be read stays, and so
// does one whose runtime is there.
func clean(dir string, log *slog.Logger) error {
	boot, namespace, err := here()
	if err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(dir, partial))
	if err != nil {
		return err
	}
	for _, name := range parts { // of a runtime that was killed, or is about to store one
		if s, err := os.Stat(name); err == nil && time.Since(s.ModTime()) > time.Hour {
			_ = os.Remove(name)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		r, err := readRecord(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			log.Error("process: a record can't be read, and stays", "file", name, "error", err)
			continue
		}
		if r.Boot == boot && (r.Namespace != namespace || r.Owner.lives()) {
			continue
		}
		if r.Boot == boot && !r.end(log, "was killed") {
			continue
		}
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// lives reports whether the process is there.
func (i identity) lives() bool {
	m, ok := look(i.Pid)
	return ok && !m.gone && m.start == i.Start
}

// end kills the group that the record names, and reports whether none of it is
// left. The log is told what has become of its runtime.
func (r *record) end(log *slog.Logger, owner string) bool {
	g := group{leader: r.Program.Pid}
	if !r.owns(g) {
		return true
	}
	known := identities(g.members())
	bound := time.Now().Add(killBound)
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		members := g.members()
		now := identities(members)
		if !slices.ContainsFunc(now, func(i identity) bool { return slices.Contains(known, i) }) {
			// It is gone; others under its number are another group.
			log.Warn("process: ended what a runtime had left that "+owner, "pid", r.Program.Pid)
			return true
		}
		if time.Now().After(bound) {
			log.Error("process: what a runtime had left that "+owner+" doesn't end",
				"pid", r.Program.Pid, "processes", len(members))
			return false
		}
		known = now
		g.kill()
		time.Sleep(wait)
	}
}

func identities(members []member) (all []identity) {
	for _, m := range members {
		all = append(all, identity{m.pid, m.start})
	}
	return all
}

// owns reports whether a group is the one that the record names. Its first
// process tells by its start. That one may be gone, since it gets the
// parent-death signal and the others don't: then one of those tells, by the
// token in the environment that it inherited. A group of which none tells is
// left alone.
func (r *record) owns(g group) bool {
	if first, ok := look(g.leader); ok {
		return first.start == r.Program.Start
	}
	token := []byte(tokenName + "=" + r.Token)
	for _, m := range g.members() {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", m.pid))
		if err != nil {
			continue
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(variable, token) {
				return true
			}
		}
	}
	return false
}
