//go:build unix

package postgrestest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// detach keeps a process out of what the terminal sends to this one.
func detach(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setpgid = true
}

// asServer has root's processes run as another user.
func asServer(c *exec.Cmd) *exec.Cmd {
	c.Dir = "/"
	if uid, gid, err := serverUser(); err == nil && os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return c
}

// own gives a folder to the user that the server runs as.
func own(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := serverUser()
	if err != nil {
		return fmt.Errorf("postgrestest: PostgreSQL refuses root: %w", err)
	}
	return os.Chown(dir, uid, gid)
}

func serverUser() (uid, gid int, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}
