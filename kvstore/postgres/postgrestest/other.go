//go:build !unix

package postgrestest

import "os/exec"

func detach(*exec.Cmd) {}

func asServer(c *exec.Cmd) *exec.Cmd { return c }

func own(string) error { return nil }
