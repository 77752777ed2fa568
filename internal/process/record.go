package process

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// tokenName is a variable in the environment of each program, which what it
// starts inherits. It tells whose a group is whose first program is gone.
const tokenName = "FERMATA_PROCESS"

// record is what is stored of a program before it runs. It has no meaning on
// another machine, nor after the machine was started anew.
type record struct {
	Version int      `json:"version"`
	Program identity `json:"program"`
	Owner   identity `json:"owner"` // the runtime that started it
	Boot    string   `json:"boot"`  // the id of the machine's start
	// Namespace is that of the process ids: a container has its own.
	Namespace string `json:"namespace"`
	Token     string `json:"token"`
	// Body and Fence are those of the Program.
	Body  string `json:"body,omitzero"`
	Fence int64  `json:"fence,omitzero"`
}

// newRecord returns the record of a program that this process starts.
func newRecord(p Program, token string) *record {
	return &record{Version: recordVersion, Token: token, Owner: identity{Pid: os.Getpid()},
		Body: p.Body, Fence: p.Fence}
}

// nameOf begins the names of the files of a body's records.
func nameOf(body string) string {
	if body == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(body))
	return fmt.Sprintf("%x-", sum[:12])
}

// identity is one process, and none that gets its number later.
type identity struct {
	Pid int `json:"pid"`
	// Start is when it was started, in the kernel's ticks since the machine was.
	Start uint64 `json:"start"`
}

const recordVersion = 1

// write stores the record durably in a folder, and returns its file.
func (r *record) write(dir string) (name string, err error) {
	text, err := strictjson.Append(nil, r)
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, fmt.Sprintf("%s%d-%s.json", nameOf(r.Body), r.Program.Pid, r.Token))
	part, err := os.CreateTemp(dir, partial)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(part.Name())
		}
	}()
	_, err = part.Write(text)
	if err == nil {
		err = part.Sync()
	}
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err == nil {
		err = syncDir(dir)
	}
	return name, err
}

// partial is the pattern of files that are being written.
const partial = ".part-*"

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// readRecord reads what write wrote.
func readRecord(name string) (*record, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r record
	if err := strictjson.Read(text, &r); err != nil {
		return nil, err
	}
	if r.Version != recordVersion || r.Program.Pid <= 1 {
		return nil, fmt.Errorf("a record of version %d, of process %d, is unknown here",
			r.Version, r.Program.Pid)
	}
	return &r, nil
}
