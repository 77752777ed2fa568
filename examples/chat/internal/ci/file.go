package ci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
)

// load reads the jobs of an earlier process.
func (s *Server) load() error {
	if s.config.File == "" {
		return nil
	}
	text, err := os.ReadFile(s.config.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &s.known); err != nil {
		return fmt.Errorf("the CI server's file %s can't be read: %w", s.config.File, err)
	}
	for i := range s.known {
		if u, err := url.Parse(s.known[i].Callback); err == nil && s.config.Hooks != "" {
			u.Host = s.config.Hooks
			s.known[i].Callback = u.String()
		}
	}
	return nil
}

// save writes all jobs. There are secrets in the callbacks, so no other user
// may read the file. The caller holds the lock.
func (s *Server) save() error {
	if s.config.File == "" {
		return nil
	}
	text, err := json.MarshalIndent(s.known, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.config.File+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.config.File+".new", s.config.File)
}
